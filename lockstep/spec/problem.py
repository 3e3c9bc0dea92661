"""A problem in a cluster description: the place, the value found and the values allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]
Relation: TypeAlias = tuple[object, Path, str, str]
"""A tuple: whether a relation is violated, its field, the value found, the values allowed."""


@dataclass(frozen=True)
class Problem:
    """One problem in a description. Problems are collected, not raised one by one."""

    path: Path
    """Keys from the top of the description: ``("nodes", 2, "management")``."""
    value: str
    allowed: str
    node: str = ""
    """Names of the affected nodes, as a range; empty if the problem is not about nodes."""
    line: int | None = None
    """Line in the inventory file; None if it was not found."""

    def where(self, file: str) -> str:
        """Return the first line of the message: ``file:line field``, and the nodes."""
        field = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in self.path).lstrip(".")
        place = f"{file}:{self.line}" if self.line else file
        nodes = f" (node {self.node})" if self.node else ""
        return f"{place} {field or 'cluster'}{nodes}"


def violated(here: Path, *relations: Relation, node: str = "") -> Iterator[Problem]:
    """Yield a problem for each violated relation; its field is relative to ``here``."""
    for wrong, field, value, allowed in relations:
        if wrong:
            yield Problem((*here, *field), value, allowed, node)


def message(problems: list[Problem], file: str) -> str:
    """Return the text of all problems, one block each, followed by the next step."""
    blocks = (
        f"ERROR {problem.where(file)}\n  found    {problem.value}\n  allowed  {problem.allowed}\n"
        for problem in problems
    )
    return (
        f"{''.join(blocks)}{len(problems)} problem{'s' if len(problems) != 1 else ''} in {file}. "
        "No node was contacted. Correct the file and try again."
    )
