"""Every kernel argument of the plan is there for the next boot.

Why      Isolation that runs today and is gone from the boot loader's menu ends with the next
         reboot, on one node, and nobody connects the two.
Blind    Other entries of the menu; an argument that is added by hand while the machine boots.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._boot import DROP_IN, NEXT, given, own_kernel
from lockstep.plan.reboot import absent
from lockstep.probe.record import Unread

LOST = "lost at the next boot"


def _look(view: View) -> Items:
    line = view.read(NEXT)
    if isinstance(line, Unread):
        return {"": line}
    return {"": " ".join(absent(view.plan.kernel_args, given(view, NEXT)))}


RULE = Rule(
    id="kernel.args_persisted",
    title="the next boot has the planned kernel arguments",
    reading=NEXT,
    look=_look,
    expected=lambda view: "",
    words=lambda seen, expected: (f"not at the next boot: {seen}", str(seen)),
    grounds=lambda view, device: frozenset({LOST}),
    applies=lambda view: own_kernel(view) and bool(view.plan.kernel_args),
    owner="boot_loader",
    explained_by=(
        Cause("file.content", device=DROP_IN, grounds=LOST),
        Cause("kernel.args", grounds=LOST),
    ),
    source="kernel documentation, admin-guide/kernel-parameters; grub-mkconfig(8)",
)
