"""Workers are compared with their class before Slurm resumes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.labs import INVENTORY, ROOT, Lab
from tests.lab.test_cluster import wait_until_idle

pytestmark = pytest.mark.lab

STRAY = "/etc/by-hand.conf"
NEW = "lockstep-compare: not compared with its class yet"
DIFFERS = f"lockstep-compare: fingerprint.file {STRAY} (from: "
COMPARED = "Compared with the class"


@pytest.fixture
def equal(cluster: Lab) -> Iterator[Lab]:
    wait_until_idle(cluster)
    yield cluster
    cluster.on("worker2", f"rm -f {STRAY}; sysctl -q -w net.core.somaxconn=8192")
    cluster.on("head", "scontrol update NodeName=worker2 State=RESUME", check=False)
    wait_until_idle(cluster)


def drain(lab: Lab, reason: str) -> None:
    lab.on("head", f"scontrol update NodeName=worker2 State=DRAIN Reason='{reason}'")


def state(lab: Lab) -> str:
    return lab.on("head", "sinfo -hN -n worker2 -o '%T %E'").strip()


def test_a_new_worker_is_resumed_once_it_equals_its_class(equal: Lab) -> None:
    drain(equal, NEW)
    equal.on("worker2", f"echo by hand > {STRAY}")
    deployed = equal.deploy()
    assert deployed.status == 1
    assert "worker2 stays drained, because it differs from its class" in deployed.errors
    assert state(equal).startswith(f"drained {DIFFERS}")
    assert equal.on("head", "sinfo -hN -n worker1 -o %T").strip() == "idle"
    equal.on("worker2", f"rm {STRAY}")
    deployed = equal.deploy()
    assert deployed.status == 0, deployed.errors
    assert [line.split(":")[0] for line in deployed.changed] == [f"deploys/worker.py | {COMPARED}"]
    assert state(equal) == "idle none"
    assert equal.deploy().changed == []


def test_a_run_that_does_not_compare_leaves_a_drained_worker_alone(equal: Lab) -> None:
    drain(equal, NEW)
    assert equal.deploy("deploys/cluster.py", "--data", "compare=no").changed == []
    assert state(equal) == f"drained {NEW}"


def test_a_repaired_worker_is_compared_and_the_repair_says_so(equal: Lab) -> None:
    drain(equal, "lockstep: gpu.count")
    equal.on("worker2", f"echo by hand > {STRAY}; sysctl -q -w net.core.somaxconn=128")
    argv = (str(ROOT / ".venv/bin/lockstep"), "repair", "-y", INVENTORY)
    done = equal.command(*argv, check=False)
    assert done.returncode == 1
    assert "worker2 stays drained, because it differs from its class" in done.stderr
    assert f"stays drained: worker2: DRAIN+IDLE ({DIFFERS}" in done.stdout, done.stdout
    assert state(equal).startswith(f"drained {DIFFERS}")
    equal.on("worker2", f"rm {STRAY}")
    done = equal.command(*argv)
    assert "1 repaired, all consistent. Exit 0." in done.stdout
    assert state(equal) == "idle none"
