"""Records of all nodes over time: saved together, found again by node, boot and moment."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from lockstep.history.store import HistoryError
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import record as parsed
from lockstep.probe.parse import text
from lockstep.probe.record import BOOT, Reading, Record
from lockstep.when import DAY_S, HOUR_S, MINUTE_S, utc

APART_S = 10 * MINUTE_S
"""Between two records whose counters are compared: a rate of seconds says little. Every moment
lies between some two of them, however often nodes are read."""
SOON_S = 2 * MINUTE_S
"""In the first minutes of a boot the oldest record of it will do, if it is this old."""

KEPT_FOR_S = 90 * DAY_S
"""Three months: from one maintenance to the next, and back before a change of driver."""
THINNED = ((2 * HOUR_S, HOUR_S), (DAY_S, DAY_S))
"""(older than, one per). All of the last two hours for counters, then one an hour for the last
day, which a night shift looks back on, then one a day. With 16 KB each: 2 MB per node in all."""
COMPRESSION = 1
"""zlib's fastest level: a third of the usual one's time for a sixth more."""


@dataclass(frozen=True)
class Kept:
    """One record that is kept, and when it was read by the clock of this side."""

    node: str
    read_at: float
    record: Record


def save(history: sqlite3.Connection, reading: Reading, now: float) -> None:
    """Keep what was read now, and thin out what is old."""
    rows = [
        (name, now, boot(record), zlib.compress(text(record), COMPRESSION))
        for name, record in reading.items()
        if isinstance(record, Record)
    ]
    history.executemany("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)", rows)
    _thin_out(history, now)


def boot(record: Record) -> str | None:
    """Return the boot that a record is of; None when that could not be read."""
    found = record.get(BOOT)
    return found if isinstance(found, str) else None


def earlier(
    history: sqlite3.Connection, reading: Reading, families: Collection[str], now: float
) -> dict[str, Record]:
    """Return an earlier record of the same boot of each node that has one: the newest apart.

    Args:
        history: what is kept.
        reading: what was read now; it says which boot each node runs.
        families: first words of the readings that are wanted; 2,000 whole records would fill
            the memory.
        now: when that was.
    """
    found = _of_boot(history, reading, families, (0.0, now - APART_S), "DESC")
    others = {name: record for name, record in reading.items() if name not in found}
    return found | _of_boot(history, others, families, (0.0, now - SOON_S), "ASC")


def latest(
    history: sqlite3.Connection, reading: Reading, families: Collection[str], now: float
) -> dict[str, Record]:
    """Return the newest record of the same boot that is too young to be an earlier one.

    A counter that was set back since that has grown from this. A minute old, where there is one;
    arguments as for ``earlier``.
    """
    return _of_boot(history, reading, families, (now - APART_S, now - MINUTE_S), "DESC")


def _of_boot(
    history: sqlite3.Connection,
    reading: Reading,
    families: Collection[str],
    span: tuple[float, float],
    order: Literal["ASC", "DESC"],
) -> dict[str, Record]:
    found: dict[str, Record] = {}
    for name, record in reading.items():
        if not isinstance(record, Record):
            continue
        row = history.execute(
            "SELECT node, read_at, data FROM record"
            " WHERE node = ? AND boot = ? AND read_at > ? AND read_at <= ?"
            f" ORDER BY read_at {order} LIMIT 1",
            (name, boot(record), *span),
        ).fetchone()
        if row is not None:
            found[name] = _kept(row, families).record
    return found


def at(history: sqlite3.Connection, node: str, moment: float) -> Kept | None:
    """Return the newest record of a node that was read at a moment or before it."""
    row = history.execute(
        "SELECT node, read_at, data FROM record WHERE node = ? AND read_at <= ?"
        " ORDER BY read_at DESC LIMIT 1",
        (node, moment),
    ).fetchone()
    return None if row is None else _kept(row)


def times(history: sqlite3.Connection, node: str) -> list[float]:
    """Return when the records of a node were read, oldest first."""
    rows = history.execute("SELECT read_at FROM record WHERE node = ? ORDER BY read_at", (node,))
    return [read_at for (read_at,) in rows]


def newest(history: sqlite3.Connection, nodes: Iterable[str]) -> Mapping[str, Kept]:
    """Return the newest record of each of the nodes that has any."""
    found = ((name, at(history, name, float("inf"))) for name in nodes)
    return {name: kept for name, kept in found if kept is not None}


def _kept(row: tuple[str, float, bytes], families: Collection[str] | None = None) -> Kept:
    node, read_at, data = row
    try:
        return Kept(node, read_at, parsed(zlib.decompress(data), families))
    except (zlib.error, ProbeFormatError) as error:
        raise HistoryError(
            f"the kept record of {node}, {utc(read_at)}: not readable: {str(error)[:120]}\n"
            "  next      restore the history from a backup, or move it away"
        ) from error


def _thin_out(history: sqlite3.Connection, now: float) -> None:
    history.execute("DELETE FROM record WHERE read_at < ?", (now - KEPT_FOR_S,))
    for age, period in THINNED:
        # The newest of each period stays.
        history.execute(
            "DELETE FROM record WHERE read_at < :until AND EXISTS ("
            " SELECT 1 FROM record AS later WHERE later.node = record.node"
            " AND later.read_at > record.read_at"
            " AND CAST(later.read_at / :period AS INTEGER)"
            " = CAST(record.read_at / :period AS INTEGER))",
            {"until": now - age, "period": period},
        )
