"""The plugin pyxis was built for the Slurm of the plan.

Why      Slurm loads SPANK plugins of its own series only, and refuses every job where a required
         one does not load: a worker fails each job that it is given.
Blind    Whether Slurm itself is of that series: package.version.
"""

from lockstep.checks.rule import Cause, Local, Rule
from lockstep.checks.rules._slurm import has_pyxis
from lockstep.plan.job_containers import PYXIS_PACKAGE

RULE = Rule(
    id="slurm.pyxis",
    title="pyxis is built for this Slurm",
    reading="slurm.spank_plugins",
    expected=lambda view: view.plan.job_containers.slurm_series,
    show=lambda value: f"for Slurm {value}",
    applies=has_pyxis,
    local=Local.HEALTH,
    owner="pyxis",
    explained_by=(Cause("package.present", device=PYXIS_PACKAGE, only_unread=True),),
    source="slurm/spank.h, plugin_version; Slurm, src/common/plugin.c",
)
