"""No NVSwitch reported an error in this boot.

Why      A fatal error of a switch takes links of all boards down, and ends their jobs.
Blind    Machines whose kernel is not their own: they do not see its log; what a reset has cured
         since: it stays until the next boot.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._gpu import OF_NVLINK, has_gpus
from lockstep.report import Severity

READING = "driver.sxid"
FATAL = "fatal error of a switch"


def _events(view: View, switch: str) -> list[str]:
    events = view.items(READING).get(switch)
    return [str(event) for event in events] if isinstance(events, list) else []


def _look(view: View) -> Items:
    return {
        switch: ", ".join(f"SXid {event}" for event in sorted({*_events(view, switch)}))
        if isinstance(events, list)
        else events
        for switch, events in view.items(READING).items()
    }


def _fatal(view: View, switch: str) -> bool:
    """Say whether one of them was; the line says so itself."""
    return any(not event.endswith("Non-fatal") for event in _events(view, switch))


RULE = Rule(
    id="gpu.sxid",
    title="no error of an NVSwitch in this boot",
    reading=READING,
    look=_look,
    expected=lambda view: "",
    words=lambda found, expected: (str(found), "no error of the switch"),
    severity_of=lambda view, switch: Severity.ERROR if _fatal(view, switch) else Severity.WARNING,
    grounds=lambda view, switch: frozenset({FATAL, OF_NVLINK} if _fatal(view, switch) else ()),
    applies=lambda view: has_gpus(view) and own_kernel(view),
    repair="drain {node}; fatal: reset all boards together (nvidia-smi -r) or reboot; one that "
    "comes back: have the switch at {device} replaced",
    source="NVIDIA fabric manager user guide, NVSwitch SXid errors",
)
