"""Workers that are deployed before their head: they wait for it, and then register on their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.labs import INVENTORY, ROOT, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

WAITS = "does not answer yet"
REGISTERED_WITHIN_S = 60
"""slurmd asks for its configuration every 10 s, and chronyd for the time."""


@pytest.fixture(scope="module")
def fresh() -> Iterator[Lab]:
    """A head and a worker as they were installed; this machine has no secrets for them."""
    lab = Lab("test-workers-alone")
    lab.lab("down")
    lab.lab("up", "--workers", "1")
    try:
        yield lab
    finally:
        lab.lab("down")


def test_workers_come_first_and_then_the_head(fresh: Lab) -> None:
    refused = fresh.deploy("deploys/worker.py")
    assert refused.status == 1
    assert f"Next: lockstep secrets {INVENTORY}" in refused.errors
    assert fresh.on("worker1", "ls /etc/apt/preferences.d") == "", "no node was changed"

    made = fresh.command(str(ROOT / ".venv/bin/lockstep"), "secrets", INVENTORY)
    assert "made     munge key, database password" in made.stdout
    first = fresh.deploy("deploys/worker.py")
    assert (first.status, first.errors.count(WAITS)) == (0, 1), first.errors
    assert fresh.on("worker1", "systemctl is-enabled slurmd").strip() == "enabled"

    head = fresh.deploy("deploys/head.py")
    assert head.status == 0, head.errors
    fresh.on(
        "head",
        f"for i in $(seq {REGISTERED_WITHIN_S}); do "
        '[ "$(sinfo -h -o %T)" = idle ] && exit 0; sleep 1; done; sinfo; exit 1',
    )
    fresh.on("worker1", "chronyc waitsync 60")
    checked = fresh.check()
    assert (checked.status, checked.named) == (0, set()), checked.text
    again = fresh.deploy()
    assert (again.status, again.changed) == (0, [])


def test_a_controller_that_is_off_is_said_and_comes_back(fresh: Lab) -> None:
    fresh.on("head", "systemctl stop slurmctld")
    fresh.on("worker1", "systemctl stop slurmd; rm -rf /var/spool/slurmd/conf-cache")
    off = fresh.deploy("deploys/worker.py")
    assert (off.status, off.errors.count(WAITS)) == (0, 1), off.errors
    fresh.on("head", "systemctl start slurmctld")
    again = fresh.deploy("deploys/worker.py")
    assert (again.status, WAITS in again.errors) == (0, False), again.errors
    assert fresh.deploy().changed == []
