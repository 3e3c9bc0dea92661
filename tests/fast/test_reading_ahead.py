"""Fewer executions, the same outcome."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fast.runs import Machine

FIVE = "\n".join(f"text(name='File {n}', path='files/{n}', content='wanted')" for n in range(5))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_rerun_reads_everything_in_one_execution(machine: Machine) -> None:
    first = machine.deploy(FIVE)
    assert len(first.executed) == 10  # nothing is foreseen: as plain pyinfra
    rerun = machine.deploy(FIVE)
    assert len(rerun.executed) == 1
    assert rerun.said.count("No changes") == 5


def test_a_run_of_some_roles_leaves_the_list_of_the_whole_deploy_alone(machine: Machine) -> None:
    machine.deploy(FIVE)
    kept = machine.kept.read_text()
    some = machine.deploy("\n".join(FIVE.splitlines()[:2]), "-y", "--data", "roles=munge")
    assert len(some.executed) == 2
    assert machine.kept.read_text() == kept


def test_switched_off_it_is_plain_pyinfra(machine: Machine) -> None:
    for executions in (10, 5, 5):
        assert len(machine.deploy(FIVE, LOCKSTEP_FAST="0").executed) == executions
    assert not machine.kept.exists()


def test_the_repair_of_one_file_costs_few_executions(machine: Machine) -> None:
    fifteen = "\n".join(FIVE.replace("files/", f"files/{tens}") for tens in ("1", "", "2"))
    machine.deploy(fifteen)
    (machine.files / "12").write_text("other\n")
    repair = machine.deploy(fifteen)
    # The batch, the file again, the repair, then 1, 2, 4 and the last 5 of the others.
    assert len(repair.executed) == 7
    assert (machine.files / "12").read_text() == "wanted\n"
    assert repair.said.count("No changes") == 14


def test_where_everything_changes_it_costs_one_execution_more(machine: Machine) -> None:
    machine.deploy(FIVE)
    ahead = machine.deploy(FIVE.replace("wanted", "new"))
    plain = machine.deploy(FIVE, LOCKSTEP_FAST="0")
    assert len(ahead.executed) == 1 + len(plain.executed)


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
    machine.deploy(deploy + FIVE)
    for file in ("0", "1", "3", "4"):
        (machine.files / file).write_text("wanted\n")
    (machine.files / "2").write_text("old\n")
    ran = machine.deploy(deploy + FIVE)
    assert "files/2 has 'old'" in ran.said  # what the batch had read
    assert f"files/2 has '{content}'" in ran.said  # and what is there
    assert "changed by something else" in ran.said
    assert ("'echo wanted > files/2'" in ran.executed) == (content != "wanted"), changes
    assert (machine.files / "2").read_text() == "wanted\n"


def test_what_was_read_too_long_ago_is_read_again(machine: Machine) -> None:
    old = "from lockstep.fast import memory; memory.MOST_AGE_S = -1\n"
    machine.deploy(FIVE)
    ran = machine.deploy(old + FIVE)
    assert ran.said.count("No changes") == 5
    assert len(ran.executed) == 6


def test_a_fact_that_holds_up_the_others_does_so_once(machine: Machine) -> None:
    slow = "from lockstep.fast import memory; memory.MOST_AGE_S = memory.SLOW_S = -1\n"
    machine.deploy(FIVE)
    ran = machine.deploy(slow + FIVE)
    assert ran.said.count("No changes") == 5
    assert ran.executed.count("'sh'") == 1, "batches"


def test_a_fact_that_fails_is_read_ahead_once(machine: Machine) -> None:
    fifteen = "\n".join(FIVE.replace("files/", f"files/{tens}") for tens in ("1", "", "2"))
    machine.deploy(fifteen)
    kept = json.loads(machine.kept.read_text())
    machine.kept.write_text(json.dumps([*kept, ["tests.fast.facts", "Fails", "[[], {}]"]]))
    (machine.files / "12").write_text("other\n")
    assert machine.deploy(fifteen).said.count("No changes") == 14
    assert (machine.files / "asked").read_text() == "asked\n"


def test_it_is_read_while_the_deploy_is_imported(machine: Machine) -> None:
    machine.deploy(FIVE)
    kept = json.loads(machine.kept.read_text())
    machine.kept.write_text(json.dumps([*kept, ["tests.fast.facts", "Fails", "[[], {}]"]]))
    imported = """
import os, time
end = time.monotonic() + 10
while not os.path.exists("files/asked"):  # lets nothing else run on this side
    assert time.monotonic() < end, "nothing is read yet"
"""
    assert len(machine.deploy(imported + FIVE).executed) == 1


def test_what_the_first_phase_was_told_is_read_again_for_the_second(machine: Machine) -> None:
    machine.deploy(FIVE)
    assert machine.deploy(FIVE, "--parallel", "1", typed="\n").executed == ("'sh'", "'sh'")


def test_the_second_phase_reads_what_the_first_has_shown(machine: Machine) -> None:
    """Without -y pyinfra prepares first; nothing is handed on over the prompt."""
    assert len(machine.deploy(FIVE, "--dry").executed) == 5
    assert len(machine.deploy(FIVE, "--dry").executed) == 1
    for file in range(5):
        (machine.files / str(file)).write_text("wanted\n")
    machine.kept.unlink()
    ran = machine.deploy(FIVE, "--parallel", "1", typed="\n")
    assert len(ran.executed) == 6


def test_a_command_that_is_no_fact_ends_the_memory(machine: Machine) -> None:
    direct = """
from pyinfra.api import StringCommand
host.run_shell_command(StringCommand("echo direct > files/4"))
"""
    deploy = (
        "host.get_fact(Text, path='files/4')\n"
        + direct
        + "log = host.get_fact(Text, path='files/4')\nhost.log(f'then {log!r}')\n"
    )
    for _ in range(2):
        assert "then 'direct'" in machine.deploy(deploy, "--dry").said
        (machine.files / "4").unlink()


def test_a_question_of_something_that_runs_is_not_answered_from_memory(machine: Machine) -> None:
    """deploys/reboot.py waits for a node so."""
    waits = """
from pyinfra.api.facts import get_fact
@operation()
def waits():
    def wait(state, host):
        for turn in "ab":
            open("files/0", "w").write(turn + "\\n")
            assert host.get_fact(Text, path="files/0") == turn
        return True
    yield FunctionCommand(wait, (), {})
waits(name="Waits")
"""
    for _ in range(2):
        assert machine.deploy(FIVE + waits).said.count("Success") >= 1


def test_facts_with_a_password_or_hidden_arguments_are_not_kept(machine: Machine) -> None:
    hidden = """
from pyinfra.api import HiddenValue
host.get_fact(Text, path=HiddenValue("hunter2"))
host.get_fact(Text, path="files/0", _env={"KEY": "hunter3"})
host.get_fact(Text, path="files/1", _sudo_password="hunter4")
host.get_fact(Text, path="files/2")
"""
    machine.deploy(hidden + FIVE, "--dry")
    assert "hunter" not in machine.kept.read_text()
    assert "files/2" in machine.kept.read_text()
    assert machine.kept.stat().st_mode & 0o777 == 0o600
    assert machine.kept.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "content", ["", "nonsense", "{}", "[1]", "[[]]", '[["os", "system", "[]"]]']
)
def test_a_list_that_is_no_list_costs_readings_only(machine: Machine, content: str) -> None:
    machine.deploy(FIVE)
    machine.kept.write_text(content)
    assert len(machine.deploy(FIVE).executed) == 5


def test_commands_that_a_deploy_writes_itself_are_not_run_ahead(machine: Machine) -> None:
    """They may change something."""
    commands = """
from pyinfra.facts.server import Command
host.get_fact(Command, command="echo ran >> files/ran")
host.get_fact(Command, "echo ran >> files/ran")
"""
    machine.deploy(FIVE + commands)
    assert "Command" not in machine.kept.read_text()
    machine.kept.write_text(
        '[["pyinfra.facts.server", "Command", "[[\\"echo ran >> files/ran\\"], {}]"],'
        ' ["tests.fast.facts", "Text", "[[\\"files/0\\"], {}]"]]'
    )
    (machine.files / "ran").unlink()
    machine.deploy("from pyinfra.facts.server import Command\n" + FIVE)
    assert not (machine.files / "ran").exists()


FOREIGN = """
class Foreign(FactBase):
    def command(self):
        return "echo ran >> files/ran; echo end"
"""


def test_nor_is_a_fact_of_the_deploy_itself(machine: Machine) -> None:
    deploy = "from pyinfra.api import FactBase\n" + FOREIGN + FIVE + "\nhost.get_fact(Foreign)\n"
    machine.deploy(deploy)
    assert "Foreign" not in machine.kept.read_text()


def test_a_run_that_fails_keeps_the_older_list(machine: Machine) -> None:
    machine.deploy(FIVE)
    kept = machine.kept.read_text()
    fails = "from pyinfra.operations import server\nserver.shell(name='x', commands=['false'])\n"
    machine.deploy(fails + FIVE, "-y", status=1)
    assert machine.kept.read_text() == kept


def test_what_is_shown_says_that_it_was_read_ahead(machine: Machine) -> None:
    machine.deploy(FIVE)
    assert ">>> (read ahead) cat files/3" in machine.deploy(FIVE, "-y", "-vv").said


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
    """In one run: its memory is of before that change, and nothing was changed on this one."""
    machine.inventory = machine.inventory.replace(
        "hosts = [", 'hosts = [("@here-ahead/node2", {"plan": _Is(spec=_Is(name="c"))}), '
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
    # A batch each; before its repair the file, the repair, the second file; the other's batch anew.
    assert len(ran.executed) == (2 + 3 + 1 if changed else 2)


def test_what_starts_something_waits_for_its_turn(machine: Machine) -> None:
    deploy = "text(name='Start', path='files/started', content='planned')\n"
    deploy += FIVE + "\nuses(name='Use')\n"
    machine.deploy(deploy)
    assert len(machine.deploy(deploy).executed) == 1
    (machine.files / "started").unlink()
    (machine.files / "asked").unlink()
    # The batch, the file again, its repair, then 1, 2 and 2 of the five, and what it starts.
    assert len(machine.deploy(deploy).executed) == 7
    assert (machine.files / "asked").read_text() == "asked\n"
    assert not (machine.files / "early").exists()


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
