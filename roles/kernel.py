"""Transparent huge pages, CPU frequency and NUMA balancing, set now and at each boot.

Owns     the settings in the hardware class's ``kernel`` that can change in the running kernel; the
         role boot_loader writes the kernel arguments for the others.
Restart  nothing: the kernel applies them at once.
"""

from __future__ import annotations

from lockstep.facts.settings import kernel_files
from lockstep.plan.boot import kernel_args
from lockstep.plan.declaration import TMPFILES, Contribution, Declaration, File
from lockstep.plan.running import sysctl

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
        sysctl=lambda plan: sysctl(plan.hardware.hardware, plan.spec.os.hugetlb_gid),
        kernel_args=lambda plan: kernel_args(plan.hardware.hardware),
    ),
    operations="lockstep.roles.operations.kernel",
    asks=lambda plan: [kernel_files(tuple(file.path for file in plan.hardware.kernel_files))],
)
