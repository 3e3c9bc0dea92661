"""Services that start jobs may open the same number of files.

Why      A job with thousands of connections ends on the node with the lower limit.
Blind    Limits that a job brings with it.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.report import Severity


def _look(view: View) -> Items:
    limits = view.items("limits.open_files")
    return {unit: value for unit, value in limits.items() if unit in (*view.plan.job_parents, "")}


RULE = Rule(
    id="limits.open_files",
    title="limits of open files are alike in a hardware class",
    reading="limits.open_files",
    look=_look,
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    show=lambda value: f"{value['soft']} of {value['hard']}" if isinstance(value, dict) else "",
    severity=Severity.WARNING,
    applies=own_kernel,
    repair="on {node}: systemctl show -p LimitNOFILE {device}; when it is idle, restart {device}",
    explained_by=(
        Cause("file.content", device="/etc/systemd/system.conf.d/90-lockstep.conf"),
        Cause("unit.active", same_device=True, only_unread=True),
    ),
    source="systemd.exec(5), LimitNOFILE=; proc_pid_limits(5)",
)
