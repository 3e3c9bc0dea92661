"""Readings of a host are taken ahead in one execution, and kept until something changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fast.runs import Machine

INVENTORY = """\
from lockstep.facts.files import file_states as _states
from lockstep.fast import connector as _connector
_connector.declared = lambda plan, roles: [_states(("{a}",)).parts(), _states(("{b}",)).parts()]
hosts = [("@here-recorded/node1", {{}})]
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
    assert ran.executed[0].startswith("request ")
    assert f"{machine.files / 'b'} is there" in ran.said


def test_a_change_drops_the_record(machine: Machine) -> None:
    ran = machine.deploy(deploy(machine, first=', content="new"'))
    # Ahead; again before the change, which must not rest on what was read before its turn; the
    # change, which brings what is asked next; what is asked once more.
    assert len(ran.executed) == 4
    last = ran.said.rindex(f"{machine.files / 'a'} is there")
    assert last > ran.said.index(f"{machine.files / 'a'} is absent")


def test_without_the_fast_path_each_question_is_an_execution(machine: Machine) -> None:
    (machine.files / "b").write_text("b")
    ran = machine.deploy(deploy(machine), LOCKSTEP_FAST="0")
    assert len(ran.executed) == 3
    assert f"{machine.files / 'b'} is there" in ran.said
