"""Workers that are deployed before their head: they wait for it, and register when it is there.

They are drained until a run with workers has compared them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.labs import INVENTORY, ROOT, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

WAITS = "does not answer; slurmd registers when it does"
NEW = "lockstep-compare: not compared with its class yet"
REGISTERED_WITHIN_S = 60
"""slurmd asks for its configuration every 10 s, and chronyd for the time."""


@pytest.fixture(scope="module")
def fresh() -> Iterator[Lab]:
    """A head and a worker as they were installed; this machine has no secrets for them."""
    with Lab("test-workers-alone").booted(workers=1) as lab:
        yield lab


def states(lab: Lab) -> dict[str, str]:
    """Each node's state in Slurm, and the reason for it."""
    lines = lab.on("head", "sinfo -hN -o '%N %T %E'").splitlines()
    return {name: state for name, _, state in (line.strip().partition(" ") for line in lines)}


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
        '[ "$(sinfo -h -o %T)" = drained ] && exit 0; sleep 1; done; sinfo; exit 1',
    )
    assert states(fresh) == {"worker1": f"drained {NEW}"}
    compared = fresh.deploy("deploys/worker.py")
    assert compared.status == 0, compared.errors
    assert states(fresh) == {"worker1": "idle none"}
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


def test_a_deploy_of_the_head_drains_an_added_node_and_no_other(fresh: Lab) -> None:
    """slurmctld starts anew for the added node, and shows each node as one that is not there."""
    fresh.lab("up", "--workers", "2")
    head = fresh.deploy("deploys/head.py")
    assert head.status == 0, head.errors
    shown = states(fresh)
    assert shown["worker2"] == f"drained* {NEW}"
    assert "drain" not in shown["worker1"]
    assert fresh.deploy("deploys/head.py").changed == []
    both = fresh.deploy()
    assert both.status == 0, both.errors
    assert states(fresh) == {"worker1": "idle none", "worker2": "idle none"}
