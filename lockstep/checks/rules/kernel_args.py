"""Every kernel argument of the plan is in force.

Why      CPU isolation and huge pages exist only from boot; a job cannot get them later.
Pending  The argument is in the boot loader's configuration: a reboot puts it in force.
Blind    Arguments that nobody declared: kernel.cmdline compares those with the peers.
"""

from collections import Counter

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.probe.record import Unread

REPEATED = ("hugepagesz", "hugepages", "console")
"""Keys that may stand on the line more than once; of all others the last one counts."""


def absent(wanted: tuple[str, ...], line: JsonValue) -> list[str]:
    """Return the wanted arguments that a command line does not put in force."""
    given = [str(word) for word in line] if isinstance(line, list) else []
    last = {word.partition("=")[0]: word for word in given}
    missing = list((Counter(wanted) - Counter(given)).elements())
    overridden = [
        word
        for word in wanted
        if word not in missing
        and (key := word.partition("=")[0]) not in REPEATED
        and last[key] != word
    ]
    return missing + overridden


def _look(view: View) -> Items:
    line = view.read("kernel.cmdline")
    if isinstance(line, Unread):
        return {"": line}
    return {"": list(absent(view.plan.hardware.kernel_args, line))}


def _pending(view: View, device: str) -> bool:
    persisted = view.read("kernel.cmdline_persisted")
    return not isinstance(persisted, Unread) and not absent(
        view.plan.hardware.kernel_args, persisted
    )


def _words(seen: JsonValue, expected: JsonValue) -> tuple[str, str]:
    missing = " ".join(str(word) for word in seen) if isinstance(seen, list) else str(seen)
    return f"not in force: {missing}", missing


RULE = Rule(
    id="kernel.args",
    title="the planned kernel arguments are in force",
    reading="kernel.cmdline",
    look=_look,
    expected=lambda view: [],
    words=_words,
    pending=_pending,
    applies=lambda view: bool(view.plan.hardware.kernel_args),
    repair="pyinfra -y {inventory} deploys/{role}.py --limit {node}, then reboot {node}",
    owner="cpu_sets, hugepages",
    source="kernel documentation, admin-guide/kernel-parameters",
)
