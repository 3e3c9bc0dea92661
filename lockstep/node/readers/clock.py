"""Reads chronyd's synchronization state."""

from __future__ import annotations

import csv
import time

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread

OWN_CLOCK = "7F7F0101"
"""Reference ID of chronyd's own ``local`` clock (chronyc(1), tracking)."""
LOST_AFTER_S = 7200.0
"""A server that provides no measurement for this long counts as lost: about seven polls at
chronyd's longest default interval, 1024 s (chrony.conf(5), maxpoll)."""
LOST_INTERVALS = 10


def read_time(request: Request, commands: Commands) -> Readings:
    """State of chronyd, from ``chronyc tracking`` (-c prints comma-separated values)."""
    listed = commands.run("chronyc", "-n", "-c", "tracking")
    row = next(csv.reader(listed.splitlines()), [])
    if len(row) != 14:
        raise Unread(f"chronyc tracking printed {len(row)} columns, expected 14")
    return {
        "time.synchronised": follows(row, time.time()),
        "time.offset_s": float(row[4]),
        "time.own_clock": row[0] == OWN_CLOCK,
    }


def follows(row: list[str], now: float) -> bool:
    """Return whether chronyd is following its source, given the columns of ``chronyc -c tracking``.

    The leap status stays "Normal" for days after the servers are lost. Column 4 is the time of the
    last measurement that was used; column 13 is the interval between the last two clock updates,
    in seconds. chronyd's own clock (the "local" directive) provides no measurements.
    """
    age = now - float(row[3])
    lost = row[0] != OWN_CLOCK and age > max(LOST_AFTER_S, LOST_INTERVALS * float(row[12]))
    return row[13] != "Not synchronised" and not lost
