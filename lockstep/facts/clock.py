"""Whether a node's clock follows its source."""

from __future__ import annotations

from lockstep.facts.reading import Question, Taken
from lockstep.node.readers.clock import LOST_AFTER_S as LOST_AFTER_S
from lockstep.node.readers.clock import LOST_INTERVALS as LOST_INTERVALS
from lockstep.node.readers.clock import OWN_CLOCK as OWN_CLOCK


def clock_offset() -> Question[float | None]:
    """Ask how far the clock is from its source, in seconds; None where it follows none."""

    def answer(taken: Taken) -> float | None:
        # Before its role has run there may be no chronyd: the gate then waits, or fails with
        # chronyd's own words.
        if taken.unread("time.synchronised") or taken["time.own_clock"]:
            return None
        return float(taken["time.offset_s"]) if taken["time.synchronised"] else None

    return Question("clock", ("time.synchronised", "time.offset_s", "time.own_clock"), answer)
