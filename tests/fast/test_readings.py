"""Readings of a host: asked ahead in one execution, kept until something changes the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fast.runs import Machine

INVENTORY = """\
from types import SimpleNamespace as _Is
import tests.fast.facts as _foreseen  # with it they may be foreseen
from lockstep.facts.files import file_states as _states
from lockstep.fast import connector as _connector
_connector.wanted = lambda plan, roles: _states(("{a}", "{b}")).parts()
hosts = [("@here-ahead/node1", {{"plan": _Is(spec=_Is(name="c"))}})]
"""
DEPLOY = """\
from lockstep.facts.files import file_states
from lockstep.facts.reading import ask

@operation()
def has(path, content=None):
    there = ask(host, file_states((path,)))[path]
    host.log(f"{{path}} {{'is there' if there else 'is absent'}}")
    if content and not there:
        yield f"echo {{content}} > {{path}}"
    else:
        host.noop(path)

has(path="{a}"{first})
has(path="{b}")
has(path="{a}")
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.inventory = INVENTORY.format(a=made.files / "a", b=made.files / "b")
    return made


def deploy(machine: Machine, first: str = "") -> str:
    return DEPLOY.format(a=machine.files / "a", b=machine.files / "b", first=first)


def test_all_that_roles_will_ask_for_is_one_execution(machine: Machine) -> None:
    (machine.files / "b").write_text("b")
    ran = machine.deploy(deploy(machine))
    assert len(ran.executed) == 1
    assert "python3 -" in ran.executed[0]
    assert f"{machine.files / 'b'} is there" in ran.said


def test_facts_and_readings_are_one_execution(machine: Machine) -> None:
    """While some of what roles ask is a fact still."""
    both = (
        "text(path='files/1', content='')\n"
        + deploy(machine)
        + "text(path='files/2', content='')\n"
    )
    machine.deploy(both)
    assert len(machine.deploy(both).executed) == 1
    # The user takes some time to answer, so each phase reads.
    assert len(machine.deploy(both, "--parallel", "1", typed="\n").executed) == 2


def test_a_change_drops_the_record(machine: Machine) -> None:
    ran = machine.deploy(deploy(machine, first=', content="new"'))
    readings = [line for line in ran.executed if "python3 -" in line]
    # Ahead; again before the change, which must not rest on what was read before its turn; after.
    assert (len(readings), len(ran.executed)) == (4, 5)
    last = ran.said.rindex(f"{machine.files / 'a'} is there")
    assert last > ran.said.index(f"{machine.files / 'a'} is absent")


def test_without_the_fast_path_each_question_is_an_execution(machine: Machine) -> None:
    (machine.files / "b").write_text("b")
    ran = machine.deploy(deploy(machine), LOCKSTEP_FAST="0")
    assert len(ran.executed) == 3
    assert f"{machine.files / 'b'} is there" in ran.said
