"""pyxis: the Slurm plugin that starts a job step in an enroot container.

Owns     the node's local file with the line that makes Slurm load the plugin.
Restart  nothing: srun and slurmstepd load the plugin when they start; slurm_worker restarts slurmd.
Order    the deploy tests the plugin before it writes that line. If no build of the plugin fits the
         installed Slurm, a worker takes no jobs, because without the line, jobs would run outside
         their containers. On the controller, the line is removed: srun then rejects
         --container-image but starts all other jobs. The controller gets the line once every worker
         has it.
"""

from __future__ import annotations

from lockstep.facts.containers import slurm_loads
from lockstep.facts.slurm import newly_named
from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File, Phase, Stage
from lockstep.plan.job_containers import PYXIS_PLUGSTACK, SLURM_LOADS
from lockstep.question import Questions


def _asks(plan: NodePlan) -> Questions:
    yield slurm_loads(plan.job_containers.plugin)
    if not plan.is_worker:
        yield newly_named(plan.job_containers.plugin, PYXIS_PLUGSTACK)


ROLE = Declaration(
    name="pyxis",
    title="pyxis",
    jobs_use=True,
    when=lambda plan: "pyxis" in plan.job_containers.packages_of,
    # If Slurm does not load the plugin, the node check takes the worker out of service.
    after=("enroot", "node_check"),
    more_packages=lambda plan: tuple(plan.job_containers.packages_of["pyxis"]),
    files=(File(path=PYXIS_PLUGSTACK, template="pyxis/plugstack.conf.j2", validate=SLURM_LOADS),),
    operations="lockstep.roles.operations.pyxis",
    asks=_asks,
    stages=(Stage(phase=Phase.AFTER_WORKERS, nodes=lambda plan: not plan.is_worker),),
)
