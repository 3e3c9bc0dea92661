"""A question about a node's clock: its offset from the time source."""

from __future__ import annotations

from lockstep.node.readers.clock import LOST_AFTER_S as LOST_AFTER_S
from lockstep.node.readers.clock import LOST_INTERVALS as LOST_INTERVALS
from lockstep.node.readers.clock import OWN_CLOCK as OWN_CLOCK
from lockstep.question import Taken, question


@question("clock", "time.synchronised", "time.offset_s", "time.own_clock")
def clock_offset(taken: Taken) -> float | None:
    """Ask for the clock's offset in seconds from its time source; None if not synchronized."""
    # Before the role time_sync has run, chronyd may be missing. The gate then waits for it, or
    # fails with chronyd's own message.
    if taken.unread("time.synchronised") or taken["time.own_clock"]:
        return None
    return float(taken["time.offset_s"]) if taken["time.synchronised"] else None
