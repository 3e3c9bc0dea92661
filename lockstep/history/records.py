"""Saves the records of all nodes, and finds them by node, boot and time."""

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
"""Minimum age of a record for comparing counters: rates over seconds mean little. However often
nodes are read, every moment lies between two compared records."""
SOON_S = 2 * MINUTE_S
"""Minimum age in the first minutes after a boot, when no older record of the boot exists."""

KEPT_FOR_S = 90 * DAY_S
"""Three months: covers the time between two maintenance windows and driver updates."""
THINNED = ((2 * HOUR_S, HOUR_S), (DAY_S, DAY_S))
"""(age, interval): all records of the last two hours are kept for counters, then one per hour for
a day, then one per day. With 16 KB each this is 2 MB per node."""
COMPRESSION = 1
"""zlib's fastest level: a third of the default level's time for a sixth more space."""


@dataclass(frozen=True)
class Kept:
    """A saved record, and when it was read by the control host's clock."""

    node: str
    read_at: float
    record: Record


def save(history: sqlite3.Connection, reading: Reading, now: float) -> None:
    """Save the new records, and thin out old ones."""
    rows = [
        (name, now, boot(record), zlib.compress(text(record), COMPRESSION))
        for name, record in reading.items()
        if isinstance(record, Record)
    ]
    history.executemany("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)", rows)
    _thin_out(history, now)


def boot(record: Record) -> str | None:
    """Return the boot id of a record; None when it could not be read."""
    found = record.get(BOOT)
    return found if isinstance(found, str) else None


def earlier(
    history: sqlite3.Connection, reading: Reading, families: Collection[str], now: float
) -> dict[str, Record]:
    """Return each node's newest record of the same boot that is at least ``APART_S`` old.

    Args:
        history: the open history.
        reading: the new records, with the current boot of each node.
        families: prefixes of the readings to load; 2,000 whole records would need too much
            memory.
        now: Unix time of ``reading``.
    """
    found = _of_boot(history, reading, families, (0.0, now - APART_S), "DESC")
    others = {name: record for name, record in reading.items() if name not in found}
    return found | _of_boot(history, others, families, (0.0, now - SOON_S), "ASC")


def latest(
    history: sqlite3.Connection, reading: Reading, families: Collection[str], now: float
) -> dict[str, Record]:
    """Return each node's newest record of the same boot that is too new for ``earlier``.

    A counter that was reset after the earlier record is compared with this one. The record is at
    least a minute old. The arguments are those of ``earlier``.
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
    """Return the newest record of a node at or before a time."""
    row = history.execute(
        "SELECT node, read_at, data FROM record WHERE node = ? AND read_at <= ?"
        " ORDER BY read_at DESC LIMIT 1",
        (node, moment),
    ).fetchone()
    return None if row is None else _kept(row)


def times(history: sqlite3.Connection, node: str) -> list[float]:
    """Return the times of a node's records, oldest first."""
    rows = history.execute("SELECT read_at FROM record WHERE node = ? ORDER BY read_at", (node,))
    return [read_at for (read_at,) in rows]


def newest(history: sqlite3.Connection, nodes: Iterable[str]) -> Mapping[str, Kept]:
    """Return the newest record of each node that has one."""
    found = ((name, at(history, name, float("inf"))) for name in nodes)
    return {name: kept for name, kept in found if kept is not None}


def _kept(row: tuple[str, float, bytes], families: Collection[str] | None = None) -> Kept:
    node, read_at, data = row
    try:
        return Kept(node, read_at, parsed(zlib.decompress(data), families))
    except (zlib.error, ProbeFormatError) as error:
        raise HistoryError(
            f"the saved record of {node}, {utc(read_at)}, is damaged: {str(error)[:120]}\n"
            "  next      restore the history from a backup, or rename it to start a new one"
        ) from error


def _thin_out(history: sqlite3.Connection, now: float) -> None:
    history.execute("DELETE FROM record WHERE read_at < ?", (now - KEPT_FOR_S,))
    for age, period in THINNED:
        # Keep the newest record of each period.
        history.execute(
            "DELETE FROM record WHERE read_at < :until AND EXISTS ("
            " SELECT 1 FROM record AS later WHERE later.node = record.node"
            " AND later.read_at > record.read_at"
            " AND CAST(later.read_at / :period AS INTEGER)"
            " = CAST(record.read_at / :period AS INTEGER))",
            {"until": now - age, "period": period},
        )
