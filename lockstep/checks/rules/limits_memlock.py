"""slurmd, and with it every job, may lock the declared amount of memory.

Why      RDMA registers memory: with too low a limit MPI falls back to slow paths or ends.
Blind    Limits that a submitter hands on with a job (PropagateResourceLimits of slurm.conf);
         containers, whose limit is that of the machine below.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import DEPLOY, Cause, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.probe.record import Unread
from lockstep.spec import Role

READING = "limits.memlock"
SLURMD = "slurmd.service"


def _wanted(view: View) -> str:
    memlock = view.plan.spec.os.memlock
    return "unlimited" if memlock == "unlimited" else str(memlock * 1024)


def _look(view: View) -> Items:
    found = view.items(READING)
    if SLURMD not in found:
        return found if "" in found else {}
    limit = found[SLURMD]
    if isinstance(limit, Unread) or not isinstance(limit, dict):
        return {SLURMD: limit}
    soft, hard = limit.get("soft"), limit.get("hard")
    return {SLURMD: soft if soft == hard else f"{soft} (at most {hard})"}


def _applies(view: View) -> bool:
    # A container's limit cannot be above that of the machine below.
    return own_kernel(view) and view.plan.role is Role.WORKER and SLURMD in view.plan.units


RULE = Rule(
    id="limits.memlock",
    title="jobs may lock the declared amount of memory",
    reading=READING,
    look=_look,
    expected_each=lambda view: {SLURMD: _wanted(view)},
    show=lambda value: f"{value} bytes" if str(value).isdigit() else str(value),
    applies=_applies,
    owner="os_settings",
    repair=f"{DEPLOY}; then, when {{node}} is idle: systemctl restart slurmd",
    explained_by=(
        Cause("file.content", device="/etc/systemd/system.conf.d/90-lockstep.conf"),
        Cause("unit.active", device=SLURMD, only_unread=True),
    ),
    source="systemd-system.conf(5), DefaultLimitMEMLOCK=; proc_pid_limits(5)",
)
