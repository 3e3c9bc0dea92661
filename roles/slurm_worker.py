"""slurmd; its configuration comes from the controller (configless), where Slurm can do that.

Owns     slurmd's arguments and drop-in, slurmd.service.
Restart  only for new arguments, a new drop-in or program, MIG devices made since; jobs survive it.
"""

from __future__ import annotations

from lockstep.files import managed, slurm_conf_sha256
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import PYXIS_PLUGIN, PYXIS_PLUGSTACK
from lockstep.plan.nvidia import MIG_MADE
from lockstep.plan.slurm import MUNGE_KEY
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.service import service
from lockstep.roles.operations.slurm_worker import configuration_fetched, registered


@role("Slurm worker")
def apply(plan: NodePlan) -> None:
    """Configure and run slurmd, then see it registered."""
    if "slurm_worker" not in plan.capabilities:
        return
    files = managed(plan, None, "slurm_worker")
    managed_files(name="Files", files=files)
    service(
        name="slurmd",
        unit="slurmd.service",
        files=(
            *(file.path for file in files),
            "/usr/sbin/slurmd",
            # A node with another key was refused; a new start registers it at once.
            MUNGE_KEY,
            *((MIG_MADE,) if plan.gpu and plan.gpu.mig else ()),
            # slurmd removes what a job's end left of its containers.
            *((PYXIS_PLUGSTACK, PYXIS_PLUGIN) if "pyxis" in plan.capabilities else ()),
        ),
    )
    if plan.cluster.configless:
        configuration_fetched(
            name="Configuration from the controller", sha256=slurm_conf_sha256(plan)
        )
    registered(
        name="Registered with the controller", node=plan.name, controller=plan.controller_host
    )
