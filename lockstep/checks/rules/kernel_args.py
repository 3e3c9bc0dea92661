"""Every kernel argument of the plan is in force.

Why      CPU isolation and huge pages exist only from boot; a job cannot get them later.
Pending  The argument is in the boot loader's configuration: a reboot puts it in force.
Blind    Arguments that nobody declared: kernel.args_foreign names those of the plan's own keys,
         kernel.cmdline compares the others with the peers.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import DEPLOY, REBOOT, Cause, Rule
from lockstep.checks.rules._boot import DROP_IN, NEXT, RUNNING, given, own_kernel
from lockstep.plan.reboot import absent
from lockstep.probe.record import Unread

NOT_ON_DISK = "not on disk"


def _look(view: View) -> Items:
    line = view.read(RUNNING)
    if isinstance(line, Unread):
        return {"": line}
    return {"": list(absent(view.plan.kernel_args, given(view, RUNNING)))}


def _pending(view: View, device: str) -> bool:
    known = isinstance(view.read(NEXT), list)
    return known and not absent(view.plan.kernel_args, given(view, NEXT))


def _words(seen: JsonValue, expected: JsonValue) -> tuple[str, str]:
    missing = " ".join(str(word) for word in seen) if isinstance(seen, list) else str(seen)
    return f"not in force: {missing}", missing


RULE = Rule(
    id="kernel.args",
    title="the planned kernel arguments are in force",
    reading=RUNNING,
    look=_look,
    expected=lambda view: [],
    words=_words,
    pending=_pending,
    grounds=lambda view, device: frozenset(() if _pending(view, device) else (NOT_ON_DISK,)),
    applies=lambda view: own_kernel(view) and bool(view.plan.kernel_args),
    repair=f"{DEPLOY}, then {REBOOT}",
    owner="boot_loader",
    # Not where they only wait: a changed file has no part in that.
    explained_by=(Cause("file.content", device=DROP_IN, grounds=NOT_ON_DISK),),
    source="kernel documentation, admin-guide/kernel-parameters",
)
