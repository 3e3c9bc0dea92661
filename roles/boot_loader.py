"""All kernel arguments, written where the boot loader reads them at the next boot.

Owns     the kernel arguments of the plan, whichever role contributes them.
Debian   a drop-in in /etc/default/grub.d; update-grub generates the menu from it.
RHEL     grubby(8) changes every entry in /boot/loader/entries, and /etc/default/grub and
         /etc/kernel/cmdline, so that kernels installed later get the arguments, too.
Reboot   arguments take effect at the next boot (deploys/reboot.py); the check reports them as
         pending until then.
"""

from __future__ import annotations

from lockstep.facts.boot import boot_entries, menu_is_due
from lockstep.plan import NodePlan
from lockstep.plan.declaration import SHELL, Declaration, File
from lockstep.question import Questions


def _asks(plan: NodePlan) -> Questions:
    if plan.release.boot_loader == "grub_drop_in":
        return [menu_is_due(plan.system.paths("boot_loader"), ())]
    return [boot_entries()]


ROLE = Declaration(
    name="boot_loader",
    title="Boot loader",
    after=("kernel", "cpu_sets", "hugepages"),
    files=(
        File(
            path="/etc/default/grub.d/50-lockstep.cfg",
            template="boot_loader/grub.cfg.j2",
            validate=SHELL,
            wanted=lambda plan: (
                bool(plan.system.kernel_args) and plan.release.boot_loader == "grub_drop_in"
            ),
        ),
    ),
    operations="lockstep.roles.operations.boot_loader",
    asks=_asks,
)
