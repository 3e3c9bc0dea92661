"""RDMA for user programs: kernel modules are loaded, and devices keep their declared names.

Owns     the udev rule that names RDMA devices. rdma-core's own rules load modules when a device
         appears, and the kernel sets the modes in /dev/infiniband, so this role has no
         files for either.
Restart  nothing: a misnamed device gets its declared name at the next boot.
"""

from __future__ import annotations

from lockstep.facts.settings import kernel_files
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.fabric import keeps_kernel_names, modules

UDEV_VERIFIES = (
    # udevadm(8): `verify` is new in systemd 254; older versions check rules only on loading.
    "! udevadm verify --help >/dev/null 2>&1 || udevadm verify {new} >/dev/null"
)

ROLE = Declaration(
    name="rdma",
    title="RDMA",
    jobs_use=True,
    when=lambda plan: plan.is_worker and plan.hardware.hardware.nics.rdma != "none",
    after=("pyxis",),
    packages={
        "debian": ("ibverbs-providers", "ibverbs-utils", "perftest", "rdma-core"),
        # Sources: NVIDIA's inbox driver documentation for RHEL 9.5, Red Hat's on InfiniBand.
        "rhel": ("libibverbs-utils", "perftest", "rdma-core"),
    },
    files=(
        File(
            # It has the same name as rdma-core's own file, so udev(7) reads this one instead.
            path="/etc/udev/rules.d/60-rdma-persistent-naming.rules",
            template="rdma/persistent_naming.rules.j2",
            validate=UDEV_VERIFIES,
            wanted=lambda plan: keeps_kernel_names(plan.hardware.hardware.nics),
        ),
    ),
    operations="lockstep.roles.operations.rdma",
    asks=lambda plan: [kernel_files(tuple(modules(plan.hardware.hardware.nics).values()))],
)
