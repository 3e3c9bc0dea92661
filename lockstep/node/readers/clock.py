"""Whether the clock follows its servers (chronyd)."""

from __future__ import annotations

import csv
import time

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread

OWN_CLOCK = "7F7F0101"
"""Reference id of chronyd's own ``local`` clock (chronyc(1), tracking)."""
LOST_AFTER_S = 7200.0
"""Servers are asked every 1024 s at the latest (chrony.conf(5), maxpoll): seven were missed."""
LOST_INTERVALS = 10


def read_time(request: Request, commands: Commands) -> Readings:
    """chronyd's own view (chronyc(1), tracking; -c prints it as comma-separated values)."""
    rows = list(csv.reader(commands.run("chronyc", "-n", "-c", "tracking").splitlines()))
    if not rows or len(rows[0]) != 14:
        columns = len(rows[0]) if rows else 0
        raise Unread(f"chronyc: tracking has {columns} columns, not 14")
    row = rows[0]
    return {
        "time.synchronised": follows(row, time.time()),
        "time.offset_s": float(row[4]),
        "time.own_clock": row[0] == OWN_CLOCK,
    }


def follows(row: list[str], now: float) -> bool:
    """Say whether chronyd follows its source, from the columns of ``chronyc -c tracking``.

    The leap status outlives the servers by days. Column 4 is when a measurement of them was last
    used, column 13 the seconds between the last two. chronyd's own clock (the "local" directive)
    measures nothing.
    """
    age = now - float(row[3])
    lost = row[0] != OWN_CLOCK and age > max(LOST_AFTER_S, LOST_INTERVALS * float(row[12]))
    return row[13] != "Not synchronised" and not lost
