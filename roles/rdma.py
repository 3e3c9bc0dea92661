"""RDMA for user programs: libraries and modules of the declared stack, and names of devices.

Owns     the udev rule that names RDMA devices. rdma-core's own rules load modules when a device
         appears, and the kernel sets the modes in /dev/infiniband, so this role has no
         files for either.
Restart  nothing: a misnamed device gets its declared name at the next boot. DOCA-OFED's modules are
         loaded at the next boot, too (deploys/reboot.py): openibd unloads others, under the jobs.
"""

from __future__ import annotations

from lockstep.facts.driver import rdma_driver_waits
from lockstep.facts.settings import kernel_files
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.fabric import (
    doca_packages,
    has_rdma,
    is_declared,
    keeps_kernel_names,
    modules,
)
from lockstep.question import Questions

UDEV_VERIFIES = (
    # udevadm(8): `verify` is new in systemd 254; older versions check rules only on loading.
    "! udevadm verify --help >/dev/null 2>&1 || udevadm verify {new} >/dev/null"
)


def _asks(plan: NodePlan) -> Questions:
    yield kernel_files(tuple(modules(plan.hardware.hardware.nics).values()))
    if is_declared(plan):
        yield rdma_driver_waits()


ROLE = Declaration(
    name="rdma",
    title="RDMA",
    jobs_use=True,
    when=has_rdma,
    after=("pyxis",),
    packages={
        "debian": ("ibverbs-providers", "ibverbs-utils", "perftest", "rdma-core"),
        # Sources: NVIDIA's inbox driver documentation for RHEL 9.5, Red Hat's on InfiniBand.
        "rhel": ("libibverbs-utils", "perftest", "rdma-core"),
    },
    # DOCA-Host has packages with these names, too, in later versions; DOCA-OFED needs its own.
    more_packages=lambda plan: tuple(doca_packages(plan)),
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
    asks=_asks,
)
