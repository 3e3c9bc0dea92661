"""A problem of a cluster description: where, what, and what is allowed there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a description. Collected, never raised one by one."""

    path: tuple[str | int, ...]
    """Keys from the top of the description: ``("nodes", 2, "management")``."""
    value: str
    allowed: str
    node: str = ""
    """Node names concerned, folded; "" when the problem is not about nodes."""
    line: int | None = None
    """Line in the inventory file, where it could be found."""

    def where(self, file: str) -> str:
        """Return ``file:line field`` (and the nodes), the start of the message."""
        field = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in self.path).lstrip(".")
        place = f"{file}:{self.line}" if self.line else file
        nodes = f" (node {self.node})" if self.node else ""
        return f"{place} {field or 'cluster'}{nodes}"


def message(problems: list[Problem], file: str) -> str:
    """Return every problem, one block each, and what to do next."""
    lines = []
    for problem in problems:
        lines += [
            f"ERROR {problem.where(file)}",
            f"  found    {problem.value}",
            f"  allowed  {problem.allowed}",
        ]
    count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    lines.append(f"{count} in {file}. No node was contacted. Correct them and run it again.")
    return "\n".join(lines)
