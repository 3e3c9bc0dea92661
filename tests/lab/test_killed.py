"""A deploy of fresh machines, killed with SIGKILL at five moments: the next one completes it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.lab.labs import INVENTORY, ROOT, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

MOMENTS = {
    "head's packages arrive": ("deploys/head.py | Packages | Install", 4.0),
    "head's database starts": ("deploys/head.py | Slurm accounting | Services", 0.3),
    "controller starts": ("deploys/head.py | Slurm controller | Services", 0.2),
    "workers' packages arrive": ("deploys/worker.py | Packages | Install", 3.0),
    "workers' keys are replaced": ("deploys/worker.py | Munge | Files", 0.1),
}
"""Moment -> the operation pyinfra announces, and how long after that it is killed, in seconds."""


@pytest.fixture
def fresh() -> Iterator[Lab]:
    with Lab("test-killed").booted() as lab:
        yield lab


def deploy_and_kill(lab: Lab, operation: str, after_s: float) -> None:
    with subprocess.Popen(
        [str(ROOT / ".venv/bin/pyinfra"), "-y", INVENTORY, "deploys/cluster.py"],
        cwd=ROOT,
        env=lab.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as deploy:
        assert deploy.stderr is not None
        for line in deploy.stderr:
            if f"Starting operation: {operation}" in line:
                break
        else:
            pytest.fail(f"pyinfra never came to {operation!r}")
        time.sleep(after_s)
        assert deploy.poll() is None, "it was still at work"
        deploy.kill()


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_next_deploy_completes_a_killed_one(fresh: Lab, moment: str) -> None:
    deploy_and_kill(fresh, *MOMENTS[moment])
    deployed = fresh.deploy()
    assert deployed.status == 0, deployed.errors
    checked = fresh.check()
    assert (checked.status, checked.named) == (0, set()), checked.text
    assert fresh.deploy().changed == []
    for node in ("head", "worker1", "worker2"):
        assert fresh.on(node, "dpkg --audit") == ""
        assert fresh.on(node, "find /etc /usr/local /usr/sbin -name '*.lockstep-new'") == ""
    fresh.on("head", "srun -N2 --gres=gpu:8 --job-name=after true")
    recorded = fresh.on(
        "head",
        "for i in $(seq 30); do sacct -n -X -o jobname%20,state | grep COMPLETED && exit 0; "
        "sleep 1; done; exit 1",
    )
    assert "after" in recorded
