"""Shared by rules about RDMA devices."""

from __future__ import annotations

from collections import Counter
from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import UNREAD, Cause
from lockstep.checks.context import Items, View
from lockstep.checks.rule import (
    Kind,
    Look,
    Peers,
    Rule,
    as_text,
)
from lockstep.spec.names import expand

DEVICES = "rdma.guid"
"""The devices below /sys/class/infiniband."""

UNREAD_WITH_COUNT = (Cause("rdma.count", of=UNREAD),)
FOLLOWS_COUNT = (Cause("rdma.count"),)
"""A lost device is one finding, although the sets of values differ as well."""
FOLLOWS_NAMES = (*FOLLOWS_COUNT, Cause("rdma.names"))
"""So is a renamed device, which is not among the declared ones."""


def of_the_fabric(view: View, reading: str) -> Items:
    """Return a reading of the declared devices; of all, if none are declared.

    A machine has more adapters than those of the fabric: storage, management.
    """
    items = view.items(reading)
    named = view.plan.hardware.hardware.nics.rdma_devices
    if not named or "" in items:
        return items
    declared = expand(named)
    if all(port in declared for port in items):
        return items
    return {port: value for port, value in items.items() if port.split("/")[0] in declared}


def named(view: View) -> tuple[str, ...]:
    """Return the declared devices of the fabric; none: all belong to it."""
    return tuple(expand(view.plan.hardware.hardware.nics.rdma_devices or ""))


def judged(view: View, reading: str, wanted: JsonValue = None) -> dict[str, JsonValue]:
    """Return each device and port to judge, with its declared value; None: none is declared.

    One that is there and is not in the reading is among them: it is unread, never ok.
    """
    there = {*of_the_fabric(view, reading), *of_the_fabric(view, DEVICES)} - {""}
    return dict.fromkeys(sorted(there), wanted)


def has_rdma(view: View) -> bool:
    """Apply to nodes with an RDMA fabric."""
    return "rdma" in view.plan.capabilities


def counted(values: JsonValue) -> str:
    """Return the values of all devices as text: ``7 x 28.39, 1 x 28.37``."""
    if not isinstance(values, list):
        return as_text(values)
    counts = Counter(as_text(value) for value in values)
    if len(counts) == 1:
        (only,) = counts
        return only
    return ", ".join(f"{count} x {value}" for value, count in counts.most_common())


def device_by_device(view: View, reading: str) -> str:
    """Return the value of each device, for rules that compare sets of values."""
    found = of_the_fabric(view, reading)
    return ", ".join(f"{device}: {as_text(value)}" for device, value in sorted(found.items()))


alike = partial(
    Rule, look=Look(devices=DEVICES), kind=Kind.SLOTS, peers=Peers.CLASS, applies=has_rdma
)
"""Devices and ports that are compared with their peers."""
