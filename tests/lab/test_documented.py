"""Runs the commands of README and docs that need machines, in the order of their pages."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.documented import Command, Where, commands
from tests.lab.labs import PYTHON, Lab

pytestmark = pytest.mark.lab

SHOWN = [one for one in commands() if one.way and one.way.where is Where.LAB]


@pytest.fixture(scope="module")
def put_back(cluster: Lab) -> Iterator[Lab]:
    """The cluster; what the commands break is repaired for the tests that follow."""
    yield cluster
    for worker in ("worker1", "worker2"):
        cluster.lab("gpu", worker, "--reset")
    deployed = cluster.deploy()
    assert deployed.status == 0, deployed.errors


@pytest.mark.parametrize("shown", SHOWN, ids=lambda one: f"{one.page}:{one.line}")
def test_a_command_succeeds(shown: Command, put_back: Lab) -> None:
    way = shown.way
    assert way is not None
    path = f"{PYTHON.parent}:{os.environ['PATH']}"
    # The lab's own commands take the name of the lab from the environment as well.
    done = put_back.command("env", f"PATH={path}", "sh", "-c", shown.text, check=False)
    assert done.returncode in way.statuses, done.stdout + done.stderr
