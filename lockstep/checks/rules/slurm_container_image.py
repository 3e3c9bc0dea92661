"""srun knows --container-image.

Why      A node without it runs a command outside of its container, and says nothing: seen when
         srun on another node knew the option.
Blind    Whether a container starts: enroot and its hooks are not tried.
"""

from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._slurm import has_pyxis
from lockstep.plan.job_containers import PYXIS_PACKAGE, PYXIS_PLUGSTACK

RULE = Rule(
    id="slurm.container_image",
    title="srun knows --container-image",
    reading="slurm.srun_options",
    expected=lambda view: True,
    applies=has_pyxis,
    local=Local.HEALTH,
    owner="pyxis",
    repair="on {node}: systemctl restart slurmd, which fetches plugstack.conf; then deploy",
    explained_by=(
        Cause("slurm.pyxis"),
        Cause("package.present", device=PYXIS_PACKAGE),
        Cause("file.content", device=PYXIS_PLUGSTACK),
        Cause("file.content", device="/etc/slurm/plugstack.conf"),
        Cause("file.content", device="/etc/slurm/plugstack.conf", on_controller=True),
        Cause("unit.active", device="slurmd.service", only_unread=True),
        Cause("slurm.conf", only_unread=True),
    ),
    source="srun(1); spank(8)",
)
