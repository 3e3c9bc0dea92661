"""RDMA for users: the kernel's interfaces are there, and devices keep their declared names.

Owns     the udev rule that names RDMA devices. rdma-core's own rules load modules when a device
         appears, and the kernel gives /dev/infiniband its modes: no file here repeats that.
Restart  nothing: a device that has another name already gets its own at the next boot.
"""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, File
from lockstep.plan.fabric import keeps_kernel_names

UDEV_VERIFIES = (
    # udevadm(8): verify came with systemd 254; before, nothing judges a rule without loading it.
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
        # NVIDIA's documentation of the inbox driver of RHEL 9.5, and Red Hat's of InfiniBand.
        "rhel": ("libibverbs-utils", "perftest", "rdma-core"),
    },
    files=(
        File(
            # The name of rdma-core's own rule: udev(7) then reads this one alone.
            path="/etc/udev/rules.d/60-rdma-persistent-naming.rules",
            template="rdma/persistent_naming.rules.j2",
            validate=UDEV_VERIFIES,
            wanted=lambda plan: keeps_kernel_names(plan.hardware.hardware.nics),
        ),
    ),
    operations="lockstep.roles.operations.rdma",
)
