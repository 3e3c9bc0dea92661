"""Fewer executions with the same result."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.fast.runs import Machine

pytestmark = pytest.mark.integration

FIVE = "\n".join(f"text(name='File {n}', path='files/{n}', content='wanted')" for n in range(5))
FIFTEEN = "\n".join(FIVE.replace("files/", f"files/{tens}") for tens in ("1", "", "2"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_run_with_nothing_to_do_reads_everything_in_one_execution(machine: Machine) -> None:
    machine.deploy(FIVE)
    rerun = machine.deploy(FIVE)
    assert len(rerun.executed) == 1
    assert rerun.said.count("No changes") == 5


def test_switched_off_it_is_plain_pyinfra(machine: Machine) -> None:
    for executions in (10, 5, 5):
        assert len(machine.deploy(FIVE, LOCKSTEP_FAST="0").executed) == executions


def test_the_repair_of_one_file_costs_few_executions(machine: Machine) -> None:
    machine.deploy(FIFTEEN)
    (machine.files / "12").write_text("other\n")
    repair = machine.deploy(FIFTEEN)
    # All, the file again, the repair with the next questions, the others that are asked for later.
    assert len(repair.executed) == 4
    assert (machine.files / "12").read_text() == "wanted\n"
    assert repair.said.count("No changes") == 14


def test_where_everything_changes_each_command_brings_the_next_reading(machine: Machine) -> None:
    # All, the first file again, and the commands.
    assert len(machine.deploy(FIVE).executed) == 2 + 5
    assert [(machine.files / str(number)).read_text() for number in range(5)] == ["wanted\n"] * 5


def test_what_an_operation_changed_is_seen_by_the_next(machine: Machine) -> None:
    twice = FIVE + "\ntext(name='Again', path='files/0', content='more')\n"
    for _ in range(2):
        ran = machine.deploy(twice)
        assert "files/0 has 'more'" in ran.said or "files/0 has ''" in ran.said
        assert (machine.files / "0").read_text() == "more\n"


ELSEWHERE = """
@operation()
def elsewhere():
    # Behind pyinfra's back, as anything else on the node would: it has no command.
    open("files/2", "w").write({content!r} + "\\n")
    host.noop("nothing of ours")
    yield from ()
elsewhere(name="Elsewhere")
"""


@pytest.mark.parametrize(
    ("content", "changes"), [("wanted", "nothing is left to do"), ("foreign", "its own change")]
)
def test_what_something_else_changed_meanwhile_is_noticed(
    machine: Machine, content: str, changes: str
) -> None:
    deploy = "text(name='First', path='files/0', content='wanted')" + ELSEWHERE.format(
        content=content
    )
    for file in ("0", "1", "3", "4"):
        (machine.files / file).write_text("wanted\n")
    (machine.files / "2").write_text("old\n")
    ran = machine.deploy(deploy + FIVE)
    assert "files/2 has 'old'" in ran.said  # what came with the connection
    assert f"files/2 has '{content}'" in ran.said  # and what is there
    assert "so the operation decided again" in ran.said
    changed = any("echo wanted > files/2" in line for line in ran.executed)
    assert changed == (content != "wanted"), changes
    assert (machine.files / "2").read_text() == "wanted\n"


def test_what_was_read_too_long_ago_is_read_again(machine: Machine) -> None:
    old = "from lockstep.fast import record; record.MOST_AGE_S = -1\n"
    machine.deploy(FIVE)
    ran = machine.deploy(old + FIVE)
    assert ran.said.count("No changes") == 5
    assert len(ran.executed) == 6


def test_it_is_read_while_the_deploy_is_imported(machine: Machine) -> None:
    programs = machine.folder / "programs"
    programs.mkdir()
    python3 = programs / "python3"
    python3.write_text(f'#!/bin/sh\necho asked >> files/asked\nexec {sys.executable} "$@"\n')
    python3.chmod(0o755)
    imported = """
import os, time
end = time.monotonic() + 10
while not os.path.exists("files/asked"):  # lets nothing else run on this side
    assert time.monotonic() < end, "nothing is read yet"
"""
    ran = machine.deploy(imported + FIVE, "--dry", PATH=f"{programs}:{os.environ['PATH']}")
    assert len(ran.executed) == 1


def test_what_the_first_phase_was_told_is_read_again_for_the_second(machine: Machine) -> None:
    machine.deploy(FIVE)
    assert len(machine.deploy(FIVE, "--parallel", "1", typed="\n").executed) == 2


def test_a_command_of_no_operation_drops_the_record(machine: Machine) -> None:
    deploy = """
from pyinfra.api import StringCommand
ask(host, line_of("files/4"))
host.run_shell_command(StringCommand("echo direct > files/4"))
log = ask(host, line_of("files/4"))
host.log(f"then {log!r}")
"""
    for _ in range(2):
        assert "then 'direct'" in machine.deploy(deploy, "--dry").said
        (machine.files / "4").unlink()


def test_a_fact_of_a_site_s_own_deploy_is_read_each_time_and_changes_nothing(
    machine: Machine,
) -> None:
    """Only questions are answered from the record; only commands drop it."""
    facts = "\n".join("host.get_fact(Answer, command='echo 7')" for _ in range(2))
    machine.deploy(FIVE)
    ran = machine.deploy(FIVE.replace("\n", f"\n{facts}\n"), "--dry")
    assert len(ran.executed) == 1 + 2 * 4


def test_a_question_of_something_that_runs_is_not_answered_from_the_record(
    machine: Machine,
) -> None:
    """deploys/reboot.py waits for a node so."""
    waits = """
@operation()
def waits():
    def wait(state, host):
        for turn in "ab":
            open("files/0", "w").write(turn + "\\n")
            assert ask(host, line_of("files/0")) == turn
        return True
    yield FunctionCommand(wait, (), {})
waits(name="Waits")
"""
    for _ in range(2):
        assert machine.deploy(FIVE + waits).said.count("Success") >= 1


def test_behind_a_barrier_it_is_read_again(machine: Machine) -> None:
    """What a node was asked about another one counts no longer: that one was deployed."""
    deploy = (
        "from lockstep.roles.steps import barrier\n"
        + FIVE
        + "\nbarrier.reached(name='Heads are done')\n"
    )
    deploy += FIVE.replace("File", "Again")
    machine.deploy(deploy)
    assert len(machine.deploy(deploy).executed) == 2


@pytest.mark.parametrize("changed", [False, True])
def test_what_tells_of_another_host_is_read_again_after_its_change(
    machine: Machine, changed: bool
) -> None:
    """In one run: its record is of before that change, and nothing was changed on this one."""
    machine.inventory = machine.inventory.replace(
        "hosts = [", 'hosts = [("@here-recorded/node2", {}), '
    )
    both = (
        "if host.name == 'node1':\n"
        "    text(name='First', path='files/3', content='wanted')\n"
        "    text(name='Second', path='files/4', content='wanted')\n"
        "else:\n"
        "    other(name='Other', node='node1', path='files/3')\n"
        "    other(name='Another', node='node2', path='files/4')\n"
    )
    machine.deploy(both)
    if changed:
        (machine.files / "3").write_text("other\n")
    ran = machine.deploy(both)
    assert re.findall(r"\[node2\] it has '(\w*)'", ran.said)[-2:] == ["wanted", "wanted"]
    # A reading each; before its repair the file, the repair; the other's anew.
    assert len(ran.executed) == (2 + 2 + 1 if changed else 2)


def test_what_a_function_of_an_operation_changed_is_seen_by_the_next(machine: Machine) -> None:
    """It has no command that the connector could see."""
    function = """
@operation()
def function():
    def change(state, host):
        open("files/3", "w").write("other\\n")
        return True
    yield FunctionCommand(change, (), {})
function(name="Function")
"""
    machine.deploy(function + FIVE)
    for _ in range(2):
        ran = machine.deploy(
            "text(name='First', path='files/3', content='wanted')" + function + FIVE
        )
        assert "files/3 has 'other'" in ran.said
        assert (machine.files / "3").read_text() == "wanted\n"
