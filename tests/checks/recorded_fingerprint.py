"""Fingerprints of the recorded nodes: made of a few objects by the program that runs on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from lockstep.checks.context import Context
from lockstep.checks.fingerprint.findings import BRANCHES, READING, places
from lockstep.checks.fingerprint.objects import asked
from lockstep.checks.rules.fingerprint import DOMAINS
from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.slow import NAMES as SLOW
from lockstep.node.fingerprint.tree import Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.probe.record import Record, Taken

Objects = Mapping[str, Mapping[str, Fields] | Unread]
"""Domain -> object -> fields; or why the domain could not be read."""
KEY = b"k" * 32
BUCKETS = 4


def objects(node: str, address: str) -> dict[str, dict[str, Fields]]:
    """Return what a healthy node has: in each domain one plain object, and one with identities."""
    found = {
        domain: {
            "plain": {"mode": "0644", "content": "a\nb\n"},
            "own": {"content": f"name {node}\naddress {address}\n"},
            "key": {"mode": "0600", "content": Secret("of all nodes")},
        }
        for domain in DOMAINS
    }
    return {**found, "running": {}}


def fingerprint(
    node: str,
    address: str,
    found: Objects,
    wanted: Iterable[tuple[str, str]] = (),
    key: bytes = KEY,
    slow_at: float = 0.0,
    boot: str = "first",
) -> dict[str, Any]:
    """Return the readings of a node with these objects, in a boot."""
    shows: dict[str, list[str]] = {}
    for domain, name in wanted:
        shows.setdefault(domain, []).append(name)
    own = Own({"name": [node], "address": [address], "boot id": [f"boot-{boot}"]})
    taken = Fingerprint(own, key, shows)
    for domain, inside in found.items():

        def read(
            request: Request, commands: Commands, inside: Mapping[str, Fields] | Unread = inside
        ) -> Iterator[Entry]:
            if isinstance(inside, Unread):
                raise inside
            yield from (Entry(name, fields) for name, fields in inside.items())

        taken.read(Domain(domain, read, BUCKETS), {}, Commands())
    taken.slow = dict.fromkeys(SLOW & found.keys(), slow_at)
    return {READING: taken.answer(), BRANCHES: taken.branches}


@cache
def of_equal_objects(node: str, address: str, *about: Any) -> dict[str, Any]:
    """Return ``fingerprint`` of a node whose objects are those of all nodes: most of them."""
    return fingerprint(node, address, objects(node, address), *about)


def with_objects(
    start: Context,
    changed: Mapping[str, Objects],
    keys: Mapping[str, bytes] | None = None,
    ages_s: Mapping[str, float] | None = None,
    boots: Mapping[str, str] | None = None,
) -> Context:
    """Return the cluster with other objects on some nodes, asked for what differs.

    Args:
        start: the cluster.
        changed: node -> its objects.
        keys: node -> its key for secret values.
        ages_s: node -> seconds from the reading of the slow domains to the check.
        boots: node -> the boot in which it is.
    """
    keys, ages_s, boots = keys or {}, ages_s or {}, boots or {}

    @cache
    def given(name: str, wanted: tuple[tuple[str, str], ...] = ()) -> dict[str, Taken]:
        address = start.plan.nodes[name].address
        record = start.reading[name]
        at = record.taken_at - ages_s.get(name, 0.0) if isinstance(record, Record) else 0.0
        about = (wanted, keys.get(name, KEY), at, boots.get(name, "first"))
        readings = (
            fingerprint(name, address, {**objects(name, address), **changed[name]}, *about)
            if name in changed
            else of_equal_objects(name, address, *about)
        )
        return {one: Taken(value=value) for one, value in readings.items()}

    def every(wanted: Mapping[str, tuple[tuple[str, str], ...]] | None = None) -> Context:
        reading = {
            name: record.model_copy(
                update={
                    "readings": {
                        **record.readings,
                        READING: given(name)[READING],
                        BRANCHES: given(name, (wanted or {}).get(name, ()))[BRANCHES],
                    }
                }
            )
            for name, record in start.reading.items()
            if isinstance(record, Record)
        }
        return replace(start, reading={**start.reading, **reading})

    return every(asked(places([every()])))
