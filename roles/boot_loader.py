"""Kernel arguments: all of them, in what the next boot reads.

Owns     the kernel arguments of the plan, whichever part of it they come from.
Debian   one drop-in of /etc/default/grub.d; update-grub makes the menu from it.
RHEL     grubby(8) changes each entry of /boot/loader/entries, /etc/default/grub and
         /etc/kernel/cmdline, so that kernels which are installed later have them too.
Reboot   they wait for one; the check reports them as pending until then (deploys/reboot.py).
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.boot_loader import entries, menu
from lockstep.roles.operations.files import managed_files


@role("Boot loader")
def apply(plan: NodePlan) -> None:
    """Bring the kernel arguments to where this system's boot loader reads them."""
    args = plan.hardware.kernel_args
    if plan.cluster.release.boot_loader == "grub_drop_in":
        files = managed(plan, None, "boot_loader")
        managed_files(name="Files", files=files)
        menu(name="Menu", files=tuple(file.path for file in files), args=args)
    elif plan.hardware.hardware.boot_loader != "none":
        entries(name="Entries", args=args)
