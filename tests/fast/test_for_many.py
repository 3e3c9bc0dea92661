"""Facts of one kind that one command reads are told as each one's own command tells them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fast.runs import Machine

TOLD = """
for name in "abc":
    host.log(f"{name} has " + str(host.get_fact(Count, path=f"files/{name}")))
"""

WRONG = ("[]", "{}", '"a.service"', "[" * 5000 + "]" * 5000)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for lines, name in enumerate("abc"):
        (machine.files / name).write_text("line\n" * lines)
    machine.deploy(TOLD)
    (machine.files / "log").unlink()
    return machine


def log(machine: Machine) -> list[str]:
    return (machine.files / "log").read_text().split()


def test_one_command_reads_them(machine: Machine) -> None:
    ran = machine.deploy(TOLD)
    assert log(machine) == ["many"]
    assert len(ran.executed) == 1
    assert all(f"{name} has {lines}" in ran.said for lines, name in enumerate("abc"))


def test_a_single_one_is_read_by_its_own(machine: Machine) -> None:
    machine.deploy(TOLD.replace("abc", "c") + "host.get_fact(Text, path='files/a')")
    (machine.files / "log").unlink()
    ran = machine.deploy(TOLD.replace("abc", "c") + "host.get_fact(Text, path='files/a')")
    assert (log(machine), len(ran.executed)) == (["one"], 1)
    assert "c has 2" in ran.said


def test_where_it_fails_each_is_read_by_its_own(machine: Machine) -> None:
    """One of them is the reason, and nobody knows which."""
    (machine.files / "b").unlink()
    ran = machine.deploy(TOLD, status=1)
    assert log(machine)[:2] == ["many", "one"]
    assert log(machine).count("many") == 1
    assert "a has 0" in ran.said
    assert "files/b: No such file" in ran.said


def test_a_list_that_was_edited_costs_readings_only(machine: Machine) -> None:
    """``command`` may take what ``command_for_many`` cannot."""
    wrong = [["lockstep.facts.services", "Service", f'[[], {{"unit": {unit}}}]'] for unit in WRONG]
    kept = json.loads(machine.kept.read_text())
    machine.kept.write_text(json.dumps([*wrong, *kept]))
    assert "c has 2" in machine.deploy(TOLD).said
    assert log(machine) == ["many"]


def test_an_answer_that_lacks_one_of_them_tells_of_none(machine: Machine) -> None:
    """As many parts as there are commands, or it is not known whose is whose."""
    short = TOLD.replace("Count", "Short")
    machine.deploy(short)
    (machine.files / "log").unlink()
    ran = machine.deploy(short)
    assert log(machine) == ["many", "one", "one", "one"]
    assert len(ran.executed) == 2
    assert all(f"{name} has {lines}" in ran.said for lines, name in enumerate("abc"))
