"""One node's readings against what its plan says: data in, results out.

A judgement is a rule of lockstep/checks as data, made at deploy time (lockstep/checks/local.py).
Python 3.9 or newer, standard library only: it runs on the node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lockstep.node.readers.reading import NOT_SUPPORTED, Unread

Readings = dict[str, Any]
"""As the probe's record has them: ``{"value": ...}`` or ``{"unread": reason}`` by name."""
NOT_THERE = "not in the record"
NOT_OFFERED = "not known to this driver"
"""How the probe says that a driver has no such field: no rule judges it there."""


@dataclass(frozen=True)
class Judgement:
    """What is read, and what it has to be."""

    readings: tuple[str, ...]
    """Several: their values of one device, joined by ", "."""
    rule: str = ""
    path: tuple[str, ...] = ()
    """Keys that lead to the one value to judge; none: each item of the reading is a device."""
    device: str = ""
    """What the value at the path is called."""
    devices: str = ""
    """Another reading whose items say which devices there are: a missing one is unread."""
    only: tuple[str, ...] = ()
    """Devices to judge, with their ports; none: all."""
    number: bool = False
    """The number that a text begins with: ``400 Gb/sec (4X NDR)``."""
    none_of: tuple[int, ...] = ()
    """The values are lists of numbers, and none of these may be among them."""
    all_of: tuple[str, ...] = ()
    """The values are lists of names, and all of these have to be among them."""
    slots: str = ""
    """A reading by device that says the PCI address which names it here."""
    expected: Any = None
    reference: str = ""
    """Reading of the same device, or of the node, that says it where ``expected`` does not."""
    bound: str = ""
    """``at least``, ``at most``; empty: equal."""
    shown: str = "{}"
    started_with: tuple[str, ...] = ()
    """Kernel arguments without which it is not judged: the node waits for a reboot."""
    refusals: tuple[str, ...] = ()
    """How a reason begins that is an answer: the driver spoke, and said that it cannot."""
    at_jobs: bool = False
    """Judged before and after a job as well."""


@dataclass(frozen=True)
class Result:
    """What is wrong with a device, or why that is not known."""

    rule: str
    device: str
    found: str
    expected: str = ""
    unread: bool = False

    @property
    def text(self) -> str:
        """The result in one line."""
        where = f"{self.rule} {self.device}".strip()
        if self.unread:
            return f"{where}: not read: {self.found}"
        return f"{where}: found {self.found}, expected {self.expected}"


def judge(judgements: Iterable[Judgement], readings: Readings) -> list[Result]:
    """Return what differs and what is unread; nothing for what is as planned."""
    return [result for one in judgements for result in _results(one, readings)]


def _results(one: Judgement, readings: Readings) -> Iterator[Result]:
    if one.started_with:
        given = _whole("kernel.cmdline", readings)
        if isinstance(given, Unread):
            yield Result(one.rule, one.device, str(given), unread=True)
            return
        if not set(one.started_with) <= set(given):
            return
    references = _items(one.reference, readings) if one.reference else {}
    for device, value in _devices(one, readings).items():
        if value == NOT_SUPPORTED:
            continue  # what a board does not have is no fault of the node
        wanted = one.expected
        if wanted is None and not (one.none_of or one.all_of):
            wanted = references.get(device, references.get("", Unread(NOT_THERE)))
        unread = next((each for each in (value, wanted) if isinstance(each, Unread)), None)
        if unread is None:
            yield from _compared(one, device, value, wanted)
        elif str(unread).startswith(one.refusals or ("\0",)):
            yield Result(one.rule, device, str(unread), _text(one, wanted))
        elif not str(unread).endswith(NOT_OFFERED):
            yield Result(one.rule, device, str(unread), unread=True)


def _compared(one: Judgement, device: str, value: Any, wanted: Any) -> Iterator[Result]:
    if one.none_of:
        forbidden = sorted(set(value) & set(one.none_of))
        if forbidden:
            yield Result(one.rule, device, ", ".join(map(one.shown.format, forbidden)), "none")
        return
    if one.all_of:
        missing = sorted(set(one.all_of) - set(value))
        if missing:
            yield Result(one.rule, device, f"no {', '.join(missing)}", ", ".join(one.all_of))
        return
    if one.number:
        match = re.match(r"[\d.]+", str(value))
        if match is None:
            yield Result(one.rule, device, f"not a number: {value!r:.60}", unread=True)
            return
        value = float(match.group())
    if one.bound and (isinstance(value, bool) or not isinstance(value, (int, float))):
        yield Result(one.rule, device, f"not a number: {value!r:.60}", unread=True)
        return
    fine = {"": value == wanted}
    if one.bound:
        fine = {"at least": value >= wanted, "at most": value <= wanted}
    if not fine[one.bound]:
        expected = f"{one.bound} {_text(one, wanted)}".strip()
        yield Result(one.rule, device, _text(one, value), expected)


def _text(one: Judgement, value: Any) -> str:
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return one.shown.format(f"{value:g}" if isinstance(value, float) else value)


def _devices(one: Judgement, readings: Readings) -> dict[str, Any]:
    """Return device -> value, or why it was not read."""
    if one.path:
        return {one.device: _at(one.path, _whole(one.readings[0], readings))}
    found = _joined([_items(name, readings) for name in one.readings])
    if one.devices and "" not in found:
        for device in _items(one.devices, readings):
            if device:
                found.setdefault(device, Unread(NOT_THERE))
    if one.only:
        chosen = ("", *one.only)  # "" is the whole reading, unread
        found = {name: value for name, value in found.items() if name.split("/")[0] in chosen}
    if one.slots:
        addresses = _items(one.slots, readings)
        names = {_slot(address): name for name, address in addresses.items()}
        found = {names.get(address, address): value for address, value in found.items()}
    return found


def _slot(address: Any) -> str:
    """Return a PCI address as the kernel log has it: without function, domain of four digits."""
    return str(address)[-12:].rpartition(".")[0].lower()


def _joined(readings: list[dict[str, Any]]) -> dict[str, Any]:
    if len(readings) == 1:
        return readings[0]
    joined: dict[str, Any] = {}
    for device in sorted({device for items in readings for device in items}):
        values = [items.get(device, items.get("", Unread(NOT_THERE))) for items in readings]
        unread = next((value for value in values if isinstance(value, Unread)), None)
        if unread is not None:
            joined[device] = unread
        elif NOT_SUPPORTED in values:
            joined[device] = NOT_SUPPORTED
        else:
            joined[device] = ", ".join(map(str, values))
    return joined


def _whole(name: str, readings: Readings) -> Any:
    entry = readings.get(name, {"unread": NOT_THERE})
    return Unread(entry["unread"]) if "unread" in entry else entry["value"]


def _items(name: str, readings: Readings) -> dict[str, Any]:
    """Return a reading item by item; one item "" for a plain or an unread one."""
    value = _whole(name, readings)
    if not isinstance(value, dict):
        return {"": value}
    return {device: _item(entry) for device, entry in value.items()}


def _item(entry: Any) -> Any:
    if isinstance(entry, dict) and entry.keys() == {"unread"}:
        return Unread(entry["unread"])
    return entry


def _at(path: tuple[str, ...], value: Any) -> Any:
    for key in path:
        if isinstance(value, Unread):
            return value
        value = _item(value[key]) if key in value else Unread(NOT_THERE)
    return value
