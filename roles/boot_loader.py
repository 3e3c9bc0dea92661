"""Kernel arguments: all of them, in what the next boot reads.

Owns     the kernel arguments of the plan, whichever role contributes them.
Debian   one drop-in of /etc/default/grub.d; update-grub makes the menu from it.
RHEL     grubby(8) changes each entry of /boot/loader/entries, /etc/default/grub and
         /etc/kernel/cmdline, so that kernels which are installed later have them too.
Reboot   they wait for one; the check reports them as pending until then (deploys/reboot.py).
"""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.validation import SHELL


def _has_drop_in(plan: NodePlan) -> bool:
    return bool(plan.kernel_args) and plan.cluster.release.boot_loader == "grub_drop_in"


ROLE = Declaration(
    name="boot_loader",
    title="Boot loader",
    after=("kernel", "cpu_sets", "hugepages"),
    files=(
        File(
            path="/etc/default/grub.d/50-lockstep.cfg",
            template="boot_loader/grub.cfg.j2",
            validate=SHELL,
            wanted=_has_drop_in,
        ),
    ),
    operations="lockstep.roles.operations.boot_loader",
)
