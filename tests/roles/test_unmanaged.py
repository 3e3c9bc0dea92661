"""What a deploy does with roles that the site manages itself; pyinfra's own command runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_pyinfra_assumptions import pyinfra

INVENTORY = """\
from tests.plan.example import planned
_plan = planned(lambda wanted: wanted.update(unmanaged={unmanaged}))
head = [("@fake/head1", {{"plan": _plan.nodes["head1"], "fake_delay": 0}})]
worker = [("@fake/worker1", {{"plan": _plan.nodes["worker1"], "fake_delay": 0}})]
"""
INCLUDES = 'from lockstep.deploys import include; include("{}")'
ONE_ROLE = """\
from pyinfra import host
from lockstep.roles.operations.apply import apply_roles
apply_roles(host.data.plan, ("munge",))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the state of this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.parametrize("deploy", ["cluster", "reboot", "remove"])
def test_a_deploy_without_a_managed_role_says_so_once_and_executes_nothing(
    folder: Path, deploy: str
) -> None:
    inventory = INVENTORY.format(unmanaged=["all"])
    done = pyinfra(folder, INCLUDES.format(deploy), "-y", "-vvv", inventory=inventory)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("Nothing is managed: the description leaves every role to the site") == 1
    assert ">>>" not in said  # pyinfra prints a command so before it executes it
    assert not (folder / "state").exists()


def test_a_deploy_says_which_of_the_roles_asked_for_it_leaves_to_the_site(folder: Path) -> None:
    inventory = INVENTORY.format(unmanaged=["munge"])
    done = pyinfra(folder, ONE_ROLE, "--dry", "-y", "--data", "roles=munge", inventory=inventory)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("munge is unmanaged: this run leaves it to the site") == 2
