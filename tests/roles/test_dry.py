"""A dry run of pyinfra's own command: what would change; this machine is the node."""

from __future__ import annotations

import getpass
import grp
import os
from pathlib import Path

import pytest

from tests.fast.runs import Machine

pytestmark = pytest.mark.integration

INVENTORY = """\
from lockstep.fast import connector as _connector
from tests.plan.example import planned
_connector.declared = lambda plan, roles: ()
_plan = planned()
hosts = [
    ("@here-recorded/" + name, {"plan": _plan.nodes[name]}) for name in ("worker1", "worker2")
]
"""
DEPLOY = """\
from pyinfra.operations import server
from lockstep.files import ManagedFile
from lockstep.roles.operations import run
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.operation import operation as alone

def planned(name, text, secret=False):
    mode = "600" if secret else "644"
    return ManagedFile("any", f"HERE/{name}", text, mode, "USER", "GROUP", secret, "")

@alone("right")
def right():
    yield from ()

server.shell(name="Of the site", commands=["touch HERE/touched"])
run.begins(host.state, host.data.plan.cluster)
right(name="Right")
files = (
    planned("a.conf", b"colour = red\\nsize = 2\\n"),
    planned("key", b"planned-secret\\n", secret=True),
    planned("new.conf", b"one\\n"),
)
managed_files(name="Files", files=files if host.name == "worker1" else files[:1])
"""
IMPORTED = """
from lockstep.roles.operations.operation import operation as alone
run.begins(host.state, host.data.plan.cluster)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """This machine, with two files that differ from the planned ones."""
    (tmp_path / "a.conf").write_text("colour = blue\nsize = 2\n")
    (tmp_path / "key").write_text("secret-on-the-node\n")
    for name, mode in (("a.conf", 0o644), ("key", 0o600)):
        (tmp_path / name).chmod(mode)
    made = Machine(tmp_path)
    made.inventory = INVENTORY
    return made


def said(machine: Machine, *options: str) -> str:
    deploy = DEPLOY.replace("HERE", str(machine.folder)).replace("USER", getpass.getuser())
    return machine.deploy(
        deploy.replace("GROUP", grp.getgrgid(os.getgid()).gr_name), *options, typed="\n"
    ).said


def expected(folder: Path) -> list[str]:
    owner = f"{getpass.getuser()}:{grp.getgrgid(os.getgid()).gr_name}"
    return [
        "--> Dry run: what would change on the nodes",
        "worker1: 2 operations",
        "Of the site",
        f"Files: {folder}/a.conf, {folder}/key, {folder}/new.conf",
        "worker2: 2 operations",
        "Of the site",
        f"Files: {folder}/a.conf",
        "worker[1-2]:",
        f"--- {folder}/a.conf on the node",
        f"+++ {folder}/a.conf planned",
        "@@ -1,2 +1,2 @@",
        "-colour = blue",
        "+colour = red",
        "size = 2",
        "worker1:",
        f"{folder}/key: secret, different",
        "worker1:",
        f"{folder}/new.conf: new, 644 {owner}, 4 bytes",
        "What follows from these changes, such as restarts, is decided when they are made. No node "
        "was changed.",
    ]


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("options", [("--dry", "-y"), ("--dry",)])
def test_a_dry_run_shows_the_operations_and_the_files_with_their_lines(
    machine: Machine, options: tuple[str, ...], fast: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With -y, pyinfra itself would examine nothing."""
    monkeypatch.setenv("LOCKSTEP_FAST", fast)
    text = said(machine, *options)
    lines = list(filter(None, (line.strip() for line in text.splitlines())))
    assert lines[lines.index("--> Dry run: what would change on the nodes") :] == (
        expected(machine.folder)
    )
    assert "planned-secret" not in text
    assert "secret-on-the-node" not in text
    assert (machine.folder / "a.conf").read_text() == "colour = blue\nsize = 2\n"
    assert not (machine.folder / "touched").exists()


def test_a_run_that_is_not_dry_shows_nothing_of_it_and_examines_nothing_with_y(
    machine: Machine,
) -> None:
    # Both nodes are this machine: two of them would write one file at the same time.
    text = said(machine, "-y", "--limit", "worker1")
    assert "Dry run" not in text
    assert "Skipping change detection" in text
    assert (machine.folder / "a.conf").read_text() == "colour = red\nsize = 2\n"


def test_a_node_that_cannot_be_read_is_not_said_to_stay_as_it_is(machine: Machine) -> None:
    unreadable = """
from lockstep.question import Unreadable
@alone()
def fails():
    if host.name == "worker2":
        raise Unreadable("files", "no answer")
    yield from ()
fails(name="Fails")
"""
    deploy = f"from lockstep.roles.operations import run{IMPORTED}{unreadable}"
    text = machine.deploy(deploy, "--dry", "-y", status=1).said
    lines = [line.strip() for line in text.splitlines()]
    assert "worker1: nothing" in lines
    assert "worker2: not known, because of the failure that is named above" in lines
    assert "worker2 failed: files could not be read: no answer" in text
