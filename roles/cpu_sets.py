"""Housekeeping CPUs for the system and its daemons; the others are left to jobs.

Owns     systemd's CPUAffinity default, user.slice's AllowedCPUs, the CPU kernel arguments.
Restart  systemd re-executes itself; services take the new set when they next start.
Reboot   kernel arguments wait for one; the check reports them as pending until then.
"""

from __future__ import annotations

from pyinfra.api import deploy

from lockstep.files import managed, systemd_configuration
from lockstep.plan import NodePlan
from roles._boot_loader import boot_loader
from roles._files import managed_files
from roles._service import manager_configuration


@deploy("CPU sets")
def apply(plan: NodePlan) -> None:
    """Write the CPU sets; before any service of ours starts, so that each starts inside them."""
    files = managed(plan, None, "cpu_sets")
    managed_files(name="Files", files=files)
    manager_configuration(name="systemd", files=systemd_configuration(plan))
    boot_loader(
        name="Boot loader", files=tuple(f.path for f in files if "/default/grub.d/" in f.path)
    )
