"""Files of the fabric: RDMA, and what MPI, UCX and NCCL read."""

from __future__ import annotations

from lockstep.files._entry import Entry
from lockstep.plan import NodePlan
from lockstep.plan.fabric import keeps_kernel_names

UDEV_VERIFIES = (
    # udevadm(8): verify came with systemd 254; before, nothing judges a rule without loading it.
    "! udevadm verify --help >/dev/null 2>&1 || udevadm verify {new} >/dev/null"
)


def _keeps_kernel_names(plan: NodePlan) -> bool:
    return keeps_kernel_names(plan.hardware.hardware.nics)


ENTRIES = (
    Entry(
        "rdma",
        # The name of rdma-core's own rule: udev(7) then reads this one alone.
        "/etc/udev/rules.d/60-rdma-persistent-naming.rules",
        "rdma/persistent_naming.rules.j2",
        validate=UDEV_VERIFIES,
        wanted=_keeps_kernel_names,
    ),
    Entry(
        "fabric",
        "/etc/nccl.conf",
        "fabric/nccl.conf.j2",
        wanted=lambda plan: bool(plan.fabric.nccl),
    ),
    Entry(
        "fabric",
        "/etc/ucx/ucx.conf",
        "fabric/ucx.conf.j2",
        wanted=lambda plan: bool(plan.fabric.ucx),
    ),
    Entry(
        "fabric",
        "/etc/profile.d/50-lockstep-fabric.sh",
        "fabric/open_mpi.sh.j2",
        validate="sh -n {new}",
        wanted=lambda plan: bool(plan.fabric.open_mpi),
    ),
)
