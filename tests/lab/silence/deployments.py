"""Ways in which equal workers come to be: in other orders, in parts, and after a killed run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.lab.labs import INVENTORY, ROOT, Lab
from tests.lab.silence.events import STANDARD

WORKERS = ("worker1", "worker2")
PACKAGES = (
    *("chrony", "munge", "prometheus-node-exporter", "slurmd", "podman", "docker.io"),
    *("slurm-client", "busybox-static", "uidmap", "crun"),
)
"""Some that the deploy installs by name. They make users, groups, units and alternatives. One that
only follows from another one would be marked as installed by hand, which is a difference."""
FIRST_ROLES = ("node_exporter", "container_runtime", "enroot")
"""Roles that a worker can have before there is a head, which brings the secrets and the time."""
KILLED_AT = "Starting operation: deploys/worker.py | Packages | Install"
LATEST_S = 10
"""The deploy is killed at most so many seconds after it came to KILLED_AT."""
NO_STARTS = (
    r"printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d"
)
"""Packages start no services. A deploy gives running ones their limits, and in the lab root may not
change those of other users' processes: the containers lack CAP_SYS_RESOURCE (prlimit(2))."""
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install"


@dataclass(frozen=True)
class Deployment:
    """One way to deploy a lab."""

    name: str
    run: Callable[[Lab, Random], None]


def deployed(lab: Lab, deploy: str = "deploys/cluster.py", *options: str) -> None:
    """Deploy as a user does.

    Raises:
        AssertionError: the deploy failed.
    """
    done = lab.deploy(deploy, *options)
    assert done.status == 0, done.errors


def prepared(lab: Lab, chance: Random) -> None:
    """Install what every server of Debian has, on each worker in another order."""
    for worker in WORKERS:
        names = chance.sample(STANDARD, len(STANDARD))
        lab.on(
            worker, f"set -e; apt-get -q update; for p in {' '.join(names)}; do {INSTALL} $p; done"
        )


def _together(lab: Lab, _: Random) -> None:
    deployed(lab)


def _one_later(lab: Lab, chance: Random) -> None:
    late = chance.choice(WORKERS)
    first = next(worker for worker in WORKERS if worker != late)
    deployed(lab, "deploys/cluster.py", "--limit", "head", "--limit", first)
    deployed(lab)


def _roles_in_parts(lab: Lab, chance: Random) -> None:
    worker = chance.choice(WORKERS)
    roles = chance.sample(FIRST_ROLES, len(FIRST_ROLES))
    # Services that start before os_settings would need new limits: see NO_STARTS.
    for part in (["packages", "os_settings"], roles[:1], roles[1:]):
        deployed(lab, "deploys/worker.py", "--limit", worker, "--data", f"roles={','.join(part)}")
    deployed(lab)


def _packages_first(lab: Lab, chance: Random) -> None:
    worker = chance.choice(WORKERS)
    names = chance.sample(PACKAGES, len(PACKAGES))
    lab.on(worker, f"set -e; {NO_STARTS}; for p in {' '.join(names)}; do {INSTALL} $p; done")
    lab.on(worker, "rm /usr/sbin/policy-rc.d")
    deployed(lab)


def _killed(lab: Lab, chance: Random) -> None:
    worker = chance.choice(WORKERS)
    after_s = chance.uniform(0, LATEST_S)
    words = [str(ROOT / ".venv/bin/pyinfra"), "-y", "--limit", "head", "--limit", worker]
    with subprocess.Popen(
        [*words, INVENTORY, "deploys/cluster.py"],
        cwd=lab.tree,
        env=lab.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        came = any(KILLED_AT in line for line in running.stderr)
        time.sleep(after_s)
        running.kill()
    assert came, f"pyinfra never came to {KILLED_AT!r}"
    deployed(lab)


DEPLOYMENTS: tuple[Deployment, ...] = (
    Deployment("all at once", _together),
    Deployment("one worker later than the other", _one_later),
    Deployment("one worker in parts, roles in another order", _roles_in_parts),
    Deployment("packages of one worker in another order, before the deploy", _packages_first),
    Deployment("one worker by a deploy that was killed", _killed),
)
