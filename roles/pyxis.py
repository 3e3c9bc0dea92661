"""pyxis: Slurm's plugin that starts a step in a container of enroot.

Owns     the node's own line of plugstack.conf.
Restart  nothing: srun and slurmstepd load the plugin at each start; slurmd is slurm_worker's.
Order    The plugin is tried before the line that requires it is put in place. Where no build fits,
         a worker takes no jobs: without the line they would run outside of their containers. On
         the controller the line goes: srun then refuses the option, and starts all other jobs.
         The controller gets its line once every worker has one.
"""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, File, Phase, Stage
from lockstep.plan.job_containers import PYXIS_PLUGSTACK, SLURM_LOADS

ROLE = Declaration(
    name="pyxis",
    title="pyxis",
    jobs_use=True,
    when=lambda plan: "pyxis" in plan.job_containers.parts,
    # Where Slurm does not load the plugin, the node check takes a worker out.
    after=("enroot", "node_check"),
    more_packages=lambda plan: plan.job_container_packages("pyxis"),
    files=(File(path=PYXIS_PLUGSTACK, template="pyxis/plugstack.conf.j2", validate=SLURM_LOADS),),
    operations="lockstep.roles.operations.pyxis",
    stages=(Stage(phase=Phase.AFTER_WORKERS, nodes=lambda plan: not plan.is_worker),),
)
