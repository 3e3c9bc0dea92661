"""Makes the functions with which a rule's ``Look`` selects the items to check."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import Skip, as_text
from lockstep.probe.record import MISSING, Unread

ItemsOf: TypeAlias = Callable[[View], Items]
Pick: TypeAlias = Callable[[JsonValue], Value | Skip]


def of_map(made: Callable[[dict[str, JsonValue]], Value | Skip]) -> Pick:
    """Return a function that turns a map into a value and leaves other values unchanged."""
    return lambda value: made(value) if isinstance(value, dict) else value


def together(one: Value, other: Value, make: Callable[[JsonValue, JsonValue], Value]) -> Value:
    """Combine two values with ``make``; if either is unread, so is the result."""
    if isinstance(one, Unread):
        return one
    return other if isinstance(other, Unread) else make(one, other)


def made(reading: str, make: Callable[[View, Items], Items]) -> ItemsOf:
    """Return a function that applies ``make`` to the items of a reading, if it could be read."""

    def look(view: View) -> Items:
        items = view.record.items(reading)
        return {"": items} if isinstance(items, Unread) else make(view, items)

    return look


def part(reading: str, *names: str) -> ItemsOf:
    """Return a function that selects some items of a reading."""
    return made(reading, lambda view, items: {name: items.get(name, MISSING) for name in names})


def joined(reading: str, *names: str) -> ItemsOf:
    """Return a function that joins related items of a reading into a comma-separated string."""

    def look(view: View) -> Items:
        items = part(reading, *names)(view)
        unread = [value for value in items.values() if isinstance(value, Unread)]
        return {"": unread[0] if unread else ", ".join(map(as_text, items.values()))}

    return look


def whole(
    reading: str, make: Callable[[View, JsonValue], Value] = lambda view, value: value
) -> ItemsOf:
    """Return a function that treats a reading as one value and applies ``make`` to it."""

    def look(view: View) -> Items:
        value = view.read(reading)
        return {"": value if isinstance(value, Unread) else make(view, value)}

    return look


def where(reading: str, names: Callable[[View], Container[str]], *, among: bool = True) -> ItemsOf:
    """Return a function that selects the items of a reading that are, or are not, in ``names``."""

    def look(view: View) -> Items:
        named = names(view)
        items = view.items(reading).items()
        return {name: value for name, value in items if not name or (name in named) is among}

    return look
