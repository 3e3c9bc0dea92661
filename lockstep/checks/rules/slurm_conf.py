"""Every slurmd works with the configuration that the controller should have.

Why      A slurmd with an old configuration disagrees with the controller on nodes and limits.
Blind    gres.conf and cgroup.conf, which come the same way: slurm.node sees their effect.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import DEPLOY, Cause, Rule
from lockstep.spec import Role, Service

FILE = "/etc/slurm/slurm.conf"


def _expected(view: View) -> str | None:
    controller = view.plan.cluster.running(Service.SLURM_CONTROLLER)
    if controller is None:
        return None
    file = view.context.files_of(controller).get(FILE)
    return None if file is None else file.sha256


RULE = Rule(
    id="slurm.conf",
    title="slurmd works with the planned slurm.conf",
    reading="slurm.conf_sha256",
    expected=_expected,
    show=lambda value: f"slurm.conf (sha256 {str(value)[:12]})",
    # A worker that has the files itself is the business of file.content.
    applies=lambda view: (
        view.plan.spec.scheduler is not None
        and view.plan.role is Role.WORKER
        and view.plan.cluster.configless
    ),
    owner="slurm_worker",
    repair=f"{DEPLOY}; where the controller itself has another one: scontrol reconfigure there",
    explained_by=(
        Cause("file.content", device=FILE, on_controller=True),
        Cause("unit.active", device="slurmd.service"),
    ),
    source="slurm.conf(5), configless",
)
