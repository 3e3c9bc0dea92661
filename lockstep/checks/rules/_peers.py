"""Shared by rules that compare undeclared settings with the peers."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from lockstep.checks.cause import Cause
from lockstep.checks.context import Items, View
from lockstep.checks.rule import (
    as_text,
)
from lockstep.probe.record import MISSING, Unread
from lockstep.spec import Role

OTHER_KERNEL = (Cause("kernel.release"), Cause("kernel.cmdline"), Cause("kernel.args"))
"""Another kernel, or other kernel arguments, bring other defaults."""
OTHER_MACHINE = (Cause("platform.product"), Cause("cpu.model"), Cause("platform.bios"))
"""Another machine, or other firmware, behaves differently."""


def worker(view: View) -> bool:
    """Apply to workers: heads differ from each other."""
    return view.plan.role is Role.WORKER


def part(reading: str, *names: str) -> Callable[[View], Items]:
    """Return a look at some items of a reading."""

    def look(view: View) -> Items:
        items = view.items(reading)
        return items if "" in items else {name: items.get(name, MISSING) for name in names}

    return look


def joined(reading: str, *names: str) -> Callable[[View], Items]:
    """Return a look at some items of a reading as one text, because they change together."""

    def look(view: View) -> Items:
        items = part(reading, *names)(view)
        unread = [value for value in items.values() if isinstance(value, Unread)]
        return {"": unread[0] if unread else ", ".join(map(as_text, items.values()))}

    return look


def whole(reading: str) -> Callable[[View], Items]:
    """Return a look at a map as one value, for ``only_difference``."""
    return lambda view: {"": view.read(reading)}


def only_difference(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the differences between two lists or maps."""
    here, there = _pairs(found), _pairs(expected)
    changed = {name for name in here.keys() & there.keys() if here[name] != there[name]}
    more, less = sorted(here.keys() - there.keys()), sorted(there.keys() - here.keys())
    parts = (("more", more), ("not", less), ("other", sorted(changed)))
    differences = "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)
    return differences, "as on its peers"


def _pairs(value: JsonValue) -> dict[str, JsonValue]:
    if isinstance(value, dict):
        return dict(value)
    return {str(one): True for one in value} if isinstance(value, list) else {}


def size(value: JsonValue) -> str:
    """Return the number of entries of a list or map that is too long to show."""
    return f"{len(_pairs(value))} entries"
