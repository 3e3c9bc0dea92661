"""The driver answers as fast as on the node's peers.

Why      A driver that takes seconds to answer waits for a board: often the first sign of one that
         is about to be lost.
Blind    Answers below two seconds; a class that is slow as a whole.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Bound, Cause, Kind, Peers, Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_COUNT, has_gpus
from lockstep.report import Severity

READING = "gpu.answered_in_s"
TIMES, SLOW_S = 3, 2.0


def _look(view: View) -> Items:
    """Return the seconds, short ones as one: their differences are noise."""
    seconds = view.read(READING)
    if not isinstance(seconds, int | float):
        return {"": seconds}
    return {"": max(float(seconds), SLOW_S / TIMES)}


RULE = Rule(
    id="gpu.answer_time",
    title="nvidia-smi answers as fast as on peers",
    reading=READING,
    kind=Kind.WITHIN,
    look=_look,
    peers=Peers.CLASS,
    bound=Bound.AT_MOST,
    tolerance=TIMES - 1,
    show=lambda seconds: f"{seconds:.1f} s" if isinstance(seconds, int | float) else str(seconds),
    severity=Severity.WARNING,
    applies=has_gpus,
    repair="on {node}: is persistence on (gpu.persistence)? Look for Xid errors, then reboot it",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.persistence"), Cause("unit.active")),
    source="three times the median of the class and more than 2 s: our own bound",
)
