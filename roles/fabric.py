"""Fabric settings for NCCL, UCX and Open MPI: address family, interfaces and devices.

docs/fabric.md lists the sources. The libraries themselves need not be installed.
Restart  nothing: a job reads the settings when it starts.
"""

from __future__ import annotations

from lockstep.plan.declaration import SHELL, Declaration, File

ROLE = Declaration(
    name="fabric",
    title="Fabric",
    jobs_use=True,
    when=lambda plan: plan.is_worker and bool(plan.node.fabric),
    after=("rdma",),
    files=(
        File(
            path="/etc/nccl.conf",
            template="fabric/nccl.conf.j2",
            wanted=lambda plan: bool(plan.fabric.nccl),
        ),
        File(
            path="/etc/ucx/ucx.conf",
            template="fabric/ucx.conf.j2",
            wanted=lambda plan: bool(plan.fabric.ucx),
        ),
        File(
            path="/etc/profile.d/50-lockstep-fabric.sh",
            template="fabric/open_mpi.sh.j2",
            validate=SHELL,
            wanted=lambda plan: bool(plan.fabric.open_mpi),
        ),
    ),
)
