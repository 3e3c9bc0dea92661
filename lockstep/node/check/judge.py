"""Compares one node's readings with its plan.

A judgement is one of a rule's comparisons, expressed as data. lockstep/checks/local.py derives it
from the plan, and the deploy writes it to the node. This module runs on the node, so it needs
only Python 3.9 or newer and its standard library.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from lockstep.node.readers.reading import NOT_AVAILABLE, NOT_SUPPORTED, Unread

Readings = dict[str, Any]
"""Name of a reading -> ``{"value": ...}`` or ``{"unread": reason}``, as in the probe's record."""
NOT_THERE = "not in the record"
BOUNDS = {"": operator.eq, "at least": operator.ge, "at most": operator.le}


@dataclass(frozen=True)
class Judgement:
    """One comparison of readings with their expected value."""

    readings: tuple[str, ...]
    """Names of the readings. If there are several, each device's values are joined with ", "."""
    rule: str = ""
    path: tuple[str, ...] = ()
    """Keys that lead to the single value to check; empty if the reading has one item per device."""
    device: str = ""
    """Name of the device to report for the value at ``path``."""
    devices: str = ""
    """A reading that lists all devices. A device without a value is reported as unread."""
    only: tuple[str, ...] = ()
    """Devices to check, including their ports (``mlx5_0/1``); empty if all are to be checked."""
    number: bool = False
    """Check only the number at the beginning of a text: 400 in ``400 Gb/sec (4X NDR)``."""
    none_of: tuple[int, ...] = ()
    """Numbers that must not occur in a value; each value is a list of numbers."""
    bits: tuple[int, ...] = ()
    """Bits that must not be set in a value."""
    bit_names: tuple[str, ...] = ()
    """What each of ``bits`` means."""
    tally: bool = False
    """Check how often each value of a map occurs: ``17 x 26.562 GB/s, 1 x <inactive>``."""
    all_of: tuple[str, ...] = ()
    """Names that must all occur in a value; each value is a list of names."""
    slots: str = ""
    """The reading with each device's PCI address; needed if the values are keyed by address."""
    expected: Any = None
    reference: str = ""
    """If ``expected`` is None, the reading with the expected value, per device or for the node."""
    bound: str = ""
    """``at least`` or ``at most``; empty if the value must equal the expected one."""
    shown: str = "{}"
    started_with: tuple[str, ...] = ()
    """Kernel arguments that the rule depends on. If the running kernel lacks one, a reboot is
    pending, and the rule is not checked."""
    refusals: tuple[str, ...] = ()
    """Prefixes of driver errors. An unread value whose reason has such a prefix is a failure."""
    at_jobs: bool = False
    """Whether the rule is also checked before and after each job."""


@dataclass(frozen=True)
class Result:
    """A failed comparison for a device, or the reason why its value could not be read."""

    rule: str
    device: str
    found: str
    expected: str = ""
    unread: bool = False

    @property
    def text(self) -> str:
        """Return the result as one line."""
        where = f"{self.rule} {self.device}".strip()
        if self.unread:
            return f"{where}: not read: {self.found}"
        return f"{where}: found {self.found}, expected {self.expected}"


def tally(values: dict[str, Any]) -> str:
    """Return how often each value of a map occurs (``18 x 26.562 GB/s``)."""
    found = [str(value) for value in values.values()]
    return ", ".join(f"{found.count(one)} x {one}" for one in sorted({*found})) or "none"


def judge(judgements: Iterable[Judgement], readings: Readings) -> list[Result]:
    """Return a result for each value that failed its comparison or could not be read."""
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
            continue  # a feature that the GPU model lacks is not a fault of the node
        wanted = one.expected
        if wanted is None and not (one.none_of or one.all_of or one.bits):
            wanted = references.get(device, references.get("", Unread(NOT_THERE)))
            if wanted == NOT_SUPPORTED:
                continue  # the GPU has no default that could be compared
        unread = next((each for each in (value, wanted) if isinstance(each, Unread)), None)
        if unread is None:
            yield from _compared(one, device, value, wanted)
        elif str(unread).startswith(one.refusals or ("\0",)):
            yield Result(one.rule, device, str(unread), _text(one, wanted))
        elif not str(unread).startswith(NOT_AVAILABLE):
            yield Result(one.rule, device, str(unread), unread=True)


def _compared(one: Judgement, device: str, value: Any, wanted: Any) -> Iterator[Result]:
    if one.none_of or one.all_of:
        forbidden = ", ".join(map(one.shown.format, sorted(set(value) & set(one.none_of))))
        missing = ", ".join(sorted(set(one.all_of) - set(value)))
        if forbidden:
            yield Result(one.rule, device, forbidden, "none")
        elif missing:
            yield Result(one.rule, device, f"no {missing}", ", ".join(one.all_of))
        return
    if one.bits:
        named = zip(one.bits, one.bit_names)  # noqa: B905 (Python 3.9)
        set_ = ", ".join(name for bit, name in named if isinstance(value, int) and value & bit)
        if set_:
            yield Result(one.rule, device, set_, "none")
        return
    if one.tally and isinstance(value, dict):
        value = tally(value)
    read = value
    if one.number:
        match = re.match(r"[\d.]+", str(read))
        value = float(match.group()) if match else None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if (one.number or one.bound) and not is_number:
        yield Result(one.rule, device, f"not a number: {read!r:.60}", unread=True)
    elif not BOUNDS[one.bound](value, wanted):
        expected = f"{one.bound} {_text(one, wanted)}".strip()
        yield Result(one.rule, device, _text(one, value), expected)


def _text(one: Judgement, value: Any) -> str:
    if isinstance(value, bool):
        value = "yes" if value else "no"
    return one.shown.format(f"{value:g}" if isinstance(value, float) else value)


def _devices(one: Judgement, readings: Readings) -> dict[str, Any]:
    """Return the value of each device, or the reason why it could not be read."""
    if one.path:
        return {one.device: _at(one.path, _whole(one.readings[0], readings))}
    found = _joined([_items(name, readings) for name in one.readings])
    if one.devices and "" not in found:
        for device in _items(one.devices, readings):
            if device:
                # nvidia-smi may leave out a GPU without any link.
                found.setdefault(device, {} if one.tally else Unread(NOT_THERE))
    if one.only:
        chosen = ("", *one.only)  # "" stands for a whole reading that is unread
        found = {name: value for name, value in found.items() if name.split("/")[0] in chosen}
    if one.slots:
        # The kernel log writes an address with a four-digit domain and without the function.
        names = {
            str(address)[-12:].rpartition(".")[0].lower(): name
            for name, address in _items(one.slots, readings).items()
        }
        found = {names.get(address, address): value for address, value in found.items()}
    return found


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
    """Return the items of a reading; a reading that is not a map has one item, named ""."""
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
