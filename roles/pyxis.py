"""pyxis: Slurm's plugin that starts a step in a container of enroot.

Owns     the node's own line of plugstack.conf.
Restart  nothing: srun and slurmstepd load the plugin at each start; slurmd is slurm_worker's.
Order    The plugin is tried before the line that requires it is put in place. Where no build fits,
         a worker takes no jobs: without the line they would run outside of their containers. On
         the controller the line goes: srun then refuses the option, and starts all other jobs.
         The controller gets its line once every worker has one.
"""

from __future__ import annotations

from lockstep.facts.slurm import HEALTH_CHECK
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.job_containers import PYXIS_PACKAGE, PYXIS_PLUGIN, PYXIS_PLUGSTACK
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.pyxis import plugin_of_this_slurm
from lockstep.roles.operations.workers_first import files_after_workers
from lockstep.spec import Role

TAKES_NO_JOBS = f"if [ -x {HEALTH_CHECK} ]; then {HEALTH_CHECK}; fi"
"""Our health check takes the node out, and back when Slurm loads the plugin."""

KNOWS_NO_CONTAINERS = f"rm -f {PYXIS_PLUGSTACK}"


@role("pyxis")
def apply(plan: NodePlan) -> None:
    """See that Slurm loads the plugin, then let it."""
    if "pyxis" not in plan.capabilities:
        return
    plugin_of_this_slurm(
        name="Plugin of this Slurm",
        version=plan.versions[PYXIS_PACKAGE],
        slurm=plan.job_containers.slurm_series,
        otherwise=TAKES_NO_JOBS if plan.role is Role.WORKER else KNOWS_NO_CONTAINERS,
    )
    files = managed(plan, None, "pyxis")
    if plan.role is Role.WORKER:
        managed_files(name="Files", files=files)
    else:
        files_after_workers(
            name="Files", plan=plan, files=files, path=PYXIS_PLUGSTACK, plugin=PYXIS_PLUGIN
        )
