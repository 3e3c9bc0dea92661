"""One changed value, and the finding that the rules must make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockstep.report import Status


@dataclass(frozen=True)
class Mutation:
    rule: str
    node: str
    reading: str
    path: tuple[str, ...]
    value: Any
    device: str = ""
    found: str = ""
    """Part of what the finding says was found."""
    status: Status = Status.DIFFERS


NODE = "worker3"


def one(
    rule: str,
    reading: str,
    path: str | tuple[str, ...],
    value: Any,
    found: str,
    device: str = "",
    status: Status = Status.DIFFERS,
) -> Mutation:
    """Return a mutation of worker3; a path of one step is that step alone."""
    steps = path if isinstance(path, tuple) else (path,) if path else ()
    return Mutation(rule, NODE, reading, steps, value, device, found, status)


def each(rule: str, reading: str, device: str, value: Any, found: str) -> Mutation:
    """Return a mutation of one item, which is the device of the finding."""
    return one(rule, reading, device, value, found, device)
