"""Transparent huge pages and CPU frequency of the running kernel, and at each boot.

Owns     the settings below /sys that the hardware class declares in ``kernel``.
Restart  nothing: the kernel takes them at once.
"""

from __future__ import annotations

from lockstep.plan.declaration import Contribution, Declaration, File
from lockstep.plan.validation import TMPFILES

ROLE = Declaration(
    name="kernel",
    title="Kernel settings",
    after=("os_settings", "cpu_sets"),
    files=(
        File(
            path="/etc/tmpfiles.d/50-lockstep-kernel.conf",
            template="kernel/tmpfiles.conf.j2",
            validate=TMPFILES,
            wanted=lambda plan: bool(plan.hardware.kernel_files),
        ),
    ),
    contributes=Contribution(
        sysctl=lambda plan: plan.hardware.sysctl,
        kernel_args=lambda plan: plan.hardware.other_args,
    ),
    operations="lockstep.roles.operations.kernel",
)
