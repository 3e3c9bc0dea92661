"""No kernel argument of the plan's own keys comes from elsewhere.

Why      Somebody's left-over isolation takes CPUs or memory from jobs, and survives each deploy.
Pending  It is gone from the boot loader's menu: a reboot ends it.
Blind    Arguments of other keys: kernel.cmdline compares those with the peers.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._boot import NEXT, RUNNING, given, key, own_kernel
from lockstep.plan.reboot import absent
from lockstep.probe.record import Unread

OWNED = (
    *("isolcpus", "nohz_full", "rcu_nocbs", "irqaffinity"),
    *("hugepages", "hugepagesz", "default_hugepagesz"),
)
"""Keys that only the plan sets (spec/validate_hardware.py refuses them in ``kernel_args``)."""


def _look(view: View) -> Items:
    planned = view.plan.kernel_args
    running, later = (
        [word for word in given(view, line) if key(word) in OWNED and word not in planned]
        for line in (RUNNING, NEXT)
    )
    items: Items = {}
    for word in (*running, *later):
        if word in running:
            items[word] = "in force" + (" and at the next boot" if word in later else "")
        else:
            items[word] = "at the next boot"
    for line in (RUNNING, NEXT):
        if isinstance(value := view.read(line), Unread):
            items[""] = value
    return items


def _grounds(view: View, word: str) -> frozenset[str]:
    """Return the lines on which it stands in the place of a planned argument."""
    planned = view.plan.kernel_args
    return frozenset(
        line
        for line in (RUNNING, NEXT)
        if word in given(view, line) and key(word) in map(key, absent(planned, given(view, line)))
    )


RULE = Rule(
    id="kernel.args_foreign",
    title="nobody else sets the plan's kernel arguments",
    reading=RUNNING,
    look=_look,
    expected=lambda view: "",
    words=lambda seen, expected: (str(seen), "not in the plan"),
    pending=lambda view, word: isinstance(view.read(NEXT), list) and word not in given(view, NEXT),
    grounds=_grounds,
    applies=own_kernel,
    repair="on {node}: take {device} out of /etc/default/grub or the file of grub.d that adds it, "
    "then update-grub (with grubby: grubby --update-kernel=ALL --remove-args={device}); reboot "
    "{node} when it is idle",
    # deploys/reboot.py reboots for what the plan wants and the kernel lacks, not for too much.
    repair_pending="reboot {node} when it is idle",
    explained_by=(
        Cause("kernel.args", grounds=RUNNING),
        Cause("kernel.args_persisted", grounds=NEXT),
        Cause("kernel.args", only_unread=True),
        Cause("kernel.args_persisted", only_unread=True),
    ),
    source="kernel documentation, admin-guide/kernel-parameters",
)
