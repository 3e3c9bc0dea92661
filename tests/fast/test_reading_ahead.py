"""Fewer executions, the same outcome."""

from __future__ import annotations

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


def test_switched_off_it_is_plain_pyinfra(machine: Machine) -> None:
    for executions in (10, 5, 5):
        assert len(machine.deploy(FIVE, LOCKSTEP_FAST="0").executed) == executions
    assert not machine.kept.exists()


def test_the_repair_of_one_file_costs_few_executions(machine: Machine) -> None:
    fifteen = FIVE.replace("files/", "files/1") + "\n" + FIVE + "\n" + FIVE.replace("files/", "files/2")
    machine.deploy(fifteen)
    (machine.files / "12").write_text("other\n")
    repair = machine.deploy(fifteen)
    # The batch, the file again, the repair, then 1, 2, 4 and the last 5 of the others.
    assert len(repair.executed) == 7
    assert (machine.files / "12").read_text() == "wanted\n"
    assert repair.said.count("No changes") == 14


def test_a_fresh_deploy_costs_no_more_than_plain_pyinfra(machine: Machine) -> None:
    machine.deploy(FIVE)
    for file in machine.files.iterdir():
        file.unlink()
    again = machine.deploy(FIVE)
    assert len(again.executed) <= len(machine.deploy(FIVE.replace("wanted", "new"), LOCKSTEP_FAST="0").executed) + 2


ELSEWHERE = """
@operation()
def elsewhere():
    def change(state, host):
        # As another person would: not through this host's connection.
        open("files/2", "w").write({content!r})
        return True
    yield FunctionCommand(change, (), {{}})
"""


def test_what_an_operation_changed_is_seen_by_the_next(machine: Machine) -> None:
    after = FIVE + "\ntext(name='Again', path='files/0', content='more')\n"
    before = "text(name='First', path='files/0', content='wanted')\n"
    machine.deploy(FIVE)
    machine.deploy(after)
    second = machine.deploy(before + after)
    assert "files/0 has 'more'" in second.said
    assert second.said.count("files/0 has 'wanted'") == 2  # on both deciding again
    assert (machine.files / "0").read_text() == "more\n"
