"""Saves the records of all nodes, and finds them by node, boot and time."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lockstep.history import fingerprints
from lockstep.history.store import KEPT_FOR_S, damaged
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import record as parsed
from lockstep.probe.parse import text
from lockstep.probe.record import BOOT, FINGERPRINT, Reading, Record, Taken, only_records
from lockstep.when import DAY_S, HOUR_S, MINUTE_S

APART_S = 10 * MINUTE_S
"""Counters are compared with a record that is at least this old, because a rate over a few seconds
means little. The compared periods leave no gaps, however often the nodes are read."""
SOON_S = 2 * MINUTE_S
"""Replaces ``APART_S`` soon after a boot, when no record of that boot is old enough."""

THINNED = ((2 * HOUR_S, HOUR_S), (DAY_S, DAY_S))
"""(age, interval): of the records older than ``age``, one per interval is kept. All records of the
last two hours are kept for counters. At 16 KB per record, this takes 2 MB per node."""
COMPRESSION = 1
"""zlib's fastest level: it takes a third of the default level's time and a sixth more space."""
KEPT_APART = Taken(value={})
"""Replaces a fingerprint in a saved record."""


@dataclass(frozen=True)
class Kept:
    """A saved record and the time at which it was read, by the clock of the control host."""

    read_at: float
    record: Record


def save(history: sqlite3.Connection, reading: Reading, now: float, method: str = "") -> None:
    """Save the new records and fingerprints, and thin out old ones.

    Args:
        history: the open history.
        reading: the new records.
        now: Unix time at which they were taken.
        method: identifies the way in which fingerprints are taken (``fleet.request.method``).
    """
    fingerprints.save(history, reading, now, method)
    rows = [
        (name, now, boot(record), zlib.compress(text(_without(record)), COMPRESSION))
        for name, record in only_records(reading).items()
    ]
    history.executemany("INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?)", rows)
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


def boot(record: Record) -> str | None:
    """Return the boot id of a record; None if it could not be read."""
    found = record.get(BOOT)
    return found if isinstance(found, str) else None


def earlier(
    history: sqlite3.Connection, reading: Reading, families: Collection[str], now: float
) -> tuple[dict[str, Record], dict[str, Record]]:
    """Return up to two earlier records of each node, from its current boot only.

    The first is the newest that is at least ``APART_S`` old; soon after a boot, it is the oldest
    that is at least ``SOON_S`` old. The second is for counters that were reset after the first
    record: it is the newest that is at least a minute but less than ``APART_S`` old.

    Args:
        history: the open history.
        reading: the new records, with the current boot of each node.
        families: prefixes of the readings to load; 2,000 complete records would take too much
            memory.
        now: Unix time at which ``reading`` was taken.
    """

    def of_boot(nodes: Reading, after: float, until: float, order: str) -> dict[str, Record]:
        where = f"boot = ? AND read_at > ? AND read_at <= ? ORDER BY read_at {order}"
        kept = {
            name: _first(history, name, where, (boot(record), after, until), families)
            for name, record in only_records(nodes).items()
        }
        return {name: one.record for name, one in kept.items() if one is not None}

    found = of_boot(reading, 0.0, now - APART_S, "DESC")
    others = {name: record for name, record in reading.items() if name not in found}
    found |= of_boot(others, 0.0, now - SOON_S, "ASC")
    return found, of_boot(reading, now - APART_S, now - MINUTE_S, "DESC")


def checks(
    history: sqlite3.Connection, nodes: Collection[str]
) -> list[tuple[float, dict[str, Record]]]:
    """Return all saved records of some nodes by check, the newest first: Unix time, and records.

    They have no fingerprints.
    """
    found: dict[float, dict[str, Record]] = {}
    for node in nodes:
        query = "SELECT read_at, data FROM record WHERE node = ?"
        for read_at, data in history.execute(query, (node,)):
            found.setdefault(read_at, {})[node] = _parsed(history, node, read_at, data, None)
    return sorted(found.items(), reverse=True)


def at(history: sqlite3.Connection, node: str, moment: float) -> Kept | None:
    """Return the newest record of a node at or before a time."""
    return _first(history, node, "read_at <= ? ORDER BY read_at DESC", (moment,))


def times(history: sqlite3.Connection, node: str) -> list[float]:
    """Return the times of a node's records, oldest first."""
    rows = history.execute("SELECT read_at FROM record WHERE node = ? ORDER BY read_at", (node,))
    return [read_at for (read_at,) in rows]


def newest(history: sqlite3.Connection, nodes: Iterable[str]) -> Mapping[str, Kept]:
    """Return the newest record of each node that has one."""
    found = ((name, at(history, name, float("inf"))) for name in nodes)
    return {name: kept for name, kept in found if kept is not None}


def _first(
    history: sqlite3.Connection,
    node: str,
    where: str,
    values: tuple[object, ...],
    families: Collection[str] | None = None,
) -> Kept | None:
    """Return the first record of a node that matches ``where``, an SQL condition with ORDER BY."""
    query = f"SELECT read_at, data FROM record WHERE node = ? AND {where} LIMIT 1"
    for read_at, data in history.execute(query, (node, *values)):
        record = _parsed(history, node, read_at, data, families)
        return Kept(read_at, _with_fingerprint(history, node, read_at, record))
    return None


def _parsed(
    history: sqlite3.Connection,
    node: str,
    read_at: float,
    data: bytes,
    families: Collection[str] | None,
) -> Record:
    try:
        return parsed(zlib.decompress(data), families)
    except (zlib.error, ProbeFormatError) as error:
        raise damaged(history, node, read_at, error) from error


def _without(record: Record) -> Record:
    """Return a record without its fingerprint, which has tables of its own."""
    return _with(record, KEPT_APART) if isinstance(record.get(FINGERPRINT), dict) else record


def _with_fingerprint(
    history: sqlite3.Connection, node: str, read_at: float, record: Record
) -> Record:
    """Return a record with the fingerprint that it was saved with."""
    if record.readings.get(FINGERPRINT) != KEPT_APART:
        return record
    value = fingerprints.at(history, node, read_at)
    return _with(record, None if value is None else Taken(value=value))


def _with(record: Record, fingerprint: Taken | None) -> Record:
    readings = {name: one for name, one in record.readings.items() if name != FINGERPRINT}
    added = {} if fingerprint is None else {FINGERPRINT: fingerprint}
    return record.model_copy(update={"readings": {**readings, **added}})
