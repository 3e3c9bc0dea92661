"""Keeps the fingerprints of nodes: a row for each change of a domain, so equal checks cost nothing.

A fingerprint is kept in parts: one for each domain, and ``ROOT`` for the rest. Equal parts are one
row, whichever nodes and times they are from. Objects that contain an identity differ on every node,
so the part with them is apart.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from lockstep.history.store import KEPT_FOR_S, damaged
from lockstep.node.fingerprint.slow import NAMES as SLOW
from lockstep.probe.record import FINGERPRINT, Reading, only_records
from lockstep.probe.versions import Version

VERSIONS = 300
"""Versions of one domain that are kept of a node: three changes a day for 90 days. It bounds the
space for a domain that differs in every check."""
ROOT = ""
SUMS, TOUCHED, COUNT, UNREAD = "sums", "touched", "count", "unread"
AGES = "slow"
PROTECTED = "!"
"""Ends the name under which the secret values of a domain are kept (``tree.PROTECTED``)."""

_OLDER = """
DELETE FROM fingerprint_version WHERE node = ? AND since < (
    SELECT newer.since FROM fingerprint_version AS newer
    WHERE newer.node = fingerprint_version.node AND newer.domain = fingerprint_version.domain
"""
_REPLACED = _OLDER + " AND newer.since <= ? ORDER BY newer.since DESC LIMIT 1)"
"""Versions that another one replaced before a time."""
_TOO_MANY = _OLDER + " ORDER BY newer.since DESC LIMIT 1 OFFSET ?)"
"""All but the newest versions."""

Part = dict[str, Any]
"""Key of the fingerprint -> what it says about one domain."""


def save(history: sqlite3.Connection, reading: Reading, now: float, method: str) -> None:
    """Save what has changed in the fingerprints, and remove what is too old.

    Args:
        history: the open history.
        reading: the new records.
        now: Unix time at which they were taken.
        method: identifies the way in which fingerprints are taken. Where a node differs from its
            last fingerprint of another method, it need not have changed.
    """
    rows = history.execute("SELECT node, since, last, method, digest FROM fingerprint")
    known = {node: row for node, *row in rows}
    parts = _Parts(history)
    changed = []
    for node, record in only_records(reading).items():
        value = record.get(FINGERPRINT)
        if not isinstance(value, dict):
            continue
        value = _without_ages(value)
        digest = _digest(json.dumps(value, sort_keys=True))
        way = f"{method} {value.get('key')}"  # hashes of secret values depend on the key
        since, last, before, was = known.get(node, (now, None, way, b""))
        taken_at = now if last is None else max(now, last)  # the clock may have been set back
        if digest != was:
            _save_changes(parts, node, _split(value), (since, last, taken_at), way == before)
            changed.append(node)
        history.execute(
            "INSERT OR REPLACE INTO fingerprint VALUES (?, ?, ?, ?, ?)",
            (node, since if way == before else taken_at, taken_at, way, digest),
        )
    _remove_old(history, changed, now)


def _without_ages(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a fingerprint without the times at which slow domains were read.

    They would make it another one each day. A slow domain without a time was not read, but would
    look empty.
    """
    ages = value.get(AGES, {})
    missing = dict.fromkeys(SLOW - ages.keys(), "not read")
    return {**value, AGES: sorted(ages), UNREAD: {**missing, **value[UNREAD]}}


def versions(history: sqlite3.Connection, node: str, domain: str) -> list[Version]:
    """Return the states of a domain on a node, the newest first.

    A domain without rows has had no object for as long as it has been read.
    """
    found = history.execute("SELECT since, last FROM fingerprint WHERE node = ?", (node,))
    times: tuple[float, float] | None = found.fetchone()
    if times is None:
        return []
    first, until = times
    parts, states = _Parts(history), []
    for since, before, changed, common, own in history.execute(
        "SELECT since, before, changed, common, own FROM fingerprint_version"
        " WHERE (node, domain) = (?, ?) ORDER BY since DESC",
        (node, domain),
    ):
        part, mine = parts.read(common, node, since), parts.read(own, node, since)
        states.append(
            Version(
                since=since,
                until=until,
                before=before if changed else None,
                sums=None if UNREAD in part else part.get(SUMS, ""),
                touched={name: tuple(hashes) for name, hashes in mine.get(TOUCHED, {}).items()},
                count=part.get(COUNT, 0),
            )
        )
        until = since if before is None else before
    return states or [Version(since=first, until=until, before=None, sums="")]


def kept(history: sqlite3.Connection, node: str) -> tuple[float, float] | None:
    """Return the times of a node's first and last known fingerprints; None if there is none."""
    found: tuple[float, float] | None = history.execute(
        "SELECT min(version.since), last FROM fingerprint JOIN fingerprint_version AS version"
        " USING (node) WHERE node = ? GROUP BY node",
        (node,),
    ).fetchone()
    return found


def domains(history: sqlite3.Connection, node: str) -> list[str]:
    """Return the domains of which a node has had objects."""
    rows = history.execute(
        "SELECT DISTINCT domain FROM fingerprint_version WHERE node = ? AND domain != ?",
        (node, ROOT),
    )
    return sorted(domain for (domain,) in rows)


def at(history: sqlite3.Connection, node: str, moment: float) -> dict[str, Any] | None:
    """Return the fingerprint of a node at a time; None if it is no longer, or not yet, known."""
    parts, found = _Parts(history), {}
    for domain, since, common, own in history.execute(
        "SELECT domain, max(since), common, own FROM fingerprint_version"
        " WHERE node = ? AND since <= ? GROUP BY domain",
        (node, moment),
    ):
        found[domain] = {**parts.read(common, node, since), **parts.read(own, node, since)}
    for domain, oldest, changed in history.execute(
        "SELECT domain, min(since), changed FROM fingerprint_version WHERE node = ?"
        " GROUP BY domain",
        (node,),
    ):
        if oldest > moment and changed:
            found[domain] = {UNREAD: "it changed too often to be kept"}
    return _joined(found) if ROOT in found else None


def _save_changes(
    parts: _Parts,
    node: str,
    new: dict[str, Part],
    times: tuple[float, float | None, float],
    comparable: bool,
) -> None:
    """Save the domains of a node that have changed.

    Args:
        parts: the saved parts.
        node: the name of the node.
        new: the parts of its fingerprint.
        times: of its first fingerprint of the same method, of its last one, and of this one.
        comparable: whether the last fingerprint was taken by the same method.
    """
    first, last, now = times
    history = parts.history
    latest = {
        domain: (common, own)
        for domain, _, common, own in history.execute(
            "SELECT domain, max(since), common, own FROM fingerprint_version WHERE node = ?"
            " GROUP BY domain",
            (node,),
        )
    }
    unread = {domain for domain, part in new.items() if UNREAD in part}
    for domain in latest.keys() - new.keys():
        new[domain] = {UNREAD: ""} if domain.removesuffix(PROTECTED) in unread else {}
    rows: list[tuple[object, ...]] = []
    for domain, part in new.items():
        common = {key: value for key, value in part.items() if key != TOUCHED}
        own = {key: value for key, value in part.items() if key == TOUCHED}
        ids = (parts.id_of(common), parts.id_of(own))
        if latest.get(domain) == ids:
            continue
        if domain not in latest and last is not None and comparable:
            nothing = parts.id_of({})
            rows.append((node, domain, first, None, 0, nothing, nothing))
        rows.append((node, domain, now, last, int(comparable and last is not None), *ids))
    history.executemany(
        "INSERT OR REPLACE INTO fingerprint_version VALUES (?, ?, ?, ?, ?, ?, ?)", rows
    )


def _remove_old(history: sqlite3.Connection, changed: list[str], now: float) -> None:
    """Remove what was replaced long ago, what is too much, and nodes that are gone."""
    until = now - KEPT_FOR_S
    removed = 0
    for node in changed:
        removed += history.execute(_REPLACED, (node, until)).rowcount
        removed += history.execute(_TOO_MANY, (node, VERSIONS - 1)).rowcount
    gone = history.execute("SELECT node FROM fingerprint WHERE last < ?", (until,)).fetchall()
    history.executemany("DELETE FROM fingerprint WHERE node = ?", gone)
    history.executemany("DELETE FROM fingerprint_version WHERE node = ?", gone)
    if removed or gone:
        history.execute(
            "DELETE FROM fingerprint_part WHERE id NOT IN (SELECT common FROM fingerprint_version)"
            " AND id NOT IN (SELECT own FROM fingerprint_version)"
        )


class _Parts:
    """The saved parts of fingerprints, each of them read and written once."""

    def __init__(self, history: sqlite3.Connection) -> None:
        self.history = history
        self._ids: dict[bytes, int] = {}
        self._read: dict[int, Part] = {}

    def id_of(self, part: Part) -> int:
        """Return the number of a part; save it if it is new."""
        text = json.dumps(part, sort_keys=True, separators=(",", ":"))
        digest = _digest(text)
        if digest not in self._ids:
            found = self.history.execute(
                "SELECT id FROM fingerprint_part WHERE digest = ?", (digest,)
            ).fetchone()
            row = (
                found
                or self.history.execute(
                    "INSERT INTO fingerprint_part (digest, data) VALUES (?, ?) RETURNING id",
                    (digest, zlib.compress(text.encode("ascii"))),
                ).fetchone()
            )
            self._ids[digest] = row[0]
        return self._ids[digest]

    def read(self, number: int, node: str, since: float) -> Part:
        """Return a part.

        Raises:
            HistoryError: it cannot be read.
        """
        if number not in self._read:
            query = "SELECT data FROM fingerprint_part WHERE id = ?"
            try:
                (data,) = self.history.execute(query, (number,)).fetchone()
                self._read[number] = json.loads(zlib.decompress(data))
            except (TypeError, ValueError, zlib.error) as error:
                raise damaged(self.history, node, since, error) from error
        return self._read[number]


def _digest(text: str) -> bytes:
    return blake2b(text.encode("ascii"), digest_size=16).digest()


def _split(value: Mapping[str, Any]) -> dict[str, Part]:
    """Return the parts of a fingerprint; ``_joined`` is the opposite."""
    parts: dict[str, Part] = {ROOT: {}}
    for key, inside in value.items():
        of_domains = isinstance(inside, dict)
        parts[ROOT][key] = {} if of_domains else inside
        for domain, one in inside.items() if of_domains else ():
            parts.setdefault(domain, {})[key] = one
    return parts


def _joined(parts: Mapping[str, Part]) -> dict[str, Any]:
    value: dict[str, Any] = {
        key: {} if isinstance(one, dict) else one for key, one in parts[ROOT].items()
    }
    for domain, part in parts.items():
        for key, one in part.items():
            if domain != ROOT and (key != UNREAD or not domain.endswith(PROTECTED)):
                value.setdefault(key, {})[domain] = one
    return {**value, AGES: dict.fromkeys(value.get(AGES, ()), 0.0)}
