"""Folders that no package of the RHEL family creates, with their owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

SYSUSERS = "/etc/sysusers.d/50-lockstep-slurm.conf"
TMPFILES = "/etc/tmpfiles.d/50-lockstep-folders.conf"


@dataclass(frozen=True)
class Folder:
    """The rights of a folder."""

    user: str = "root"
    group: str = "root"
    mode: str = "755"
    """Octal, without leading zeros."""


SLURM = Folder("slurm", "slurm")


def missing_in_packages(plan: NodePlan) -> Mapping[str, Folder | None]:
    """Return path -> rights of the folders of a node; None if its package may change the rights."""
    return {
        "/var/lib/prometheus": None,
        "/var/lib/prometheus/node-exporter": Folder(),
        **(OF_SLURM if plan.spec.slurm is not None else {}),
    }


OF_SLURM = {
    "/etc/slurm": Folder(),
    "/var/lib/slurm": SLURM,
    "/var/lib/slurm/slurmctld": SLURM,
    "/var/lib/slurm/slurmd": Folder(),
    "/var/log/slurm": SLURM,
}
"""Path -> rights; slurmctld writes as the user slurm, slurmd as root."""
