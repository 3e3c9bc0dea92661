"""The values of a draft: where each was found, or what a person must fill in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from lockstep.describe.seen import Seen
from lockstep.report import fold

T = TypeVar("T")
TODO = "TODO"
PLAIN = re.compile(r"[A-Za-z0-9_.:-]+")


@dataclass(frozen=True)
class Value:
    """A value with the nodes that it was found on."""

    value: Any
    note: str = ""
    """Where it was found."""
    above: tuple[str, ...] = ()
    """Comments for a person, one line each."""


@dataclass(frozen=True)
class Block:
    """A part of the draft: a dictionary, or a list whose items have the keys 0, 1 and so on."""

    parts: dict[Any, Value | Block] = field(default_factory=dict)
    above: tuple[str, ...] = ()
    rows: bool = False
    """Whether it is a list."""


def todo(what: str, why: str = "") -> Value:
    """Return a value that Lockstep's reader refuses, so that nobody overlooks it."""
    return Value(f"{TODO}: {what}", f"{TODO}: {why or 'not found'}")


def folded(names: Iterable[str]) -> str:
    """Return names from a node, folded unless they have other characters than names have."""
    every = list(names)
    return fold(every) if all(PLAIN.fullmatch(one) for one in every) else ", ".join(every)


def named(nodes: Iterable[Seen]) -> str:
    """Return the names of nodes, folded."""
    return folded(one.name for one in nodes)


def found_on(nodes: Iterable[Seen]) -> str:
    """Return the comment of a value that these nodes agree on."""
    return f"found on {named(nodes)}"


def agreed(nodes: Sequence[Seen], pick: Callable[[Seen], T | None]) -> tuple[T, str] | None:
    """Return the most common value and where it was found; None if no node has one.

    The comment names the nodes with another value: either they are wrong, or they belong to
    another group.
    """
    found = [(one, value) for one in nodes if (value := pick(one)) is not None]
    if not found:
        return None
    counted = Counter(repr(value) for _, value in found)
    most = counted.most_common(1)[0][0]
    value = next(value for _, value in found if repr(value) == most)
    note = found_on(one for one, value in found if repr(value) == most)
    others = {shown: [one for one, v in found if repr(v) == shown] for shown in counted}
    del others[most]
    for shown, having in others.items():
        note += f"; {named(having)}: {shown}"
    if len(found) < len(nodes):
        note += f"; not read on {named(one for one in nodes if pick(one) is None)}"
    return value, note + ("; confirm" if others else "")


def optional(
    parts: dict[Any, Value | Block],
    key: str,
    got: tuple[Any, str] | None,
    usual: object = None,
) -> None:
    """Add a value to a part, unless it was not found or is the usual one."""
    if got is not None and got[0] != usual:
        parts[key] = Value(*got)


def checked(model: type[BaseModel], name: str, found: Value, what: str) -> Value:
    """Return a value if the field of the description accepts it, and a TODO otherwise."""
    try:
        _adapter(model, name).validate_python(found.value)
    except ValidationError as error:
        expected = error.errors()[0]["msg"].removeprefix("Value error, ")
        why = f"{found.value!r} was {found.note}; expected: {expected}"
        return replace(todo(what, why), above=found.above)
    return found


@cache
def _adapter(model: type[BaseModel], name: str) -> TypeAdapter[Any]:
    one = model.model_fields[name]
    kind: Any = one.annotation
    return TypeAdapter(Annotated[kind, *one.metadata] if one.metadata else kind)


def plain(part: Value | Block) -> Any:
    """Return the draft as the description that the inventory contains."""
    if isinstance(part, Value):
        return part.value
    if part.rows:
        return [plain(one) for one in part.parts.values()]
    return {key: plain(one) for key, one in part.parts.items()}


def todos(part: Value | Block) -> int:
    """Return how many values a person must fill in."""
    if isinstance(part, Value):
        return part.note.startswith(TODO)
    return sum(todos(one) for one in part.parts.values())


def table(parts: Mapping[Any, Value | Block], *above: str) -> Block:
    """Return a part that is a dictionary."""
    return Block(dict(parts), above)


def rows(items: Iterable[Value | Block], *above: str) -> Block:
    """Return a part that is a list."""
    return Block(dict(enumerate(items)), above, rows=True)
