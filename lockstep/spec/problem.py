"""A problem in a cluster description: the place, the value found and the values allowed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One problem of a description. Problems are collected, not raised one by one."""

    path: tuple[str | int, ...]
    """Keys from the top of the description: ``("nodes", 2, "management")``."""
    value: str
    allowed: str
    node: str = ""
    """Names of the affected nodes, folded; "" when the problem is not about nodes."""
    line: int | None = None
    """Line in the inventory file; None when it was not found."""

    def where(self, file: str) -> str:
        """Return the first line of the message: ``file:line field``, and the nodes."""
        field = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in self.path).lstrip(".")
        place = f"{file}:{self.line}" if self.line else file
        nodes = f" (node {self.node})" if self.node else ""
        return f"{place} {field or 'cluster'}{nodes}"


def message(problems: list[Problem], file: str) -> str:
    """Return all problems, one block each, and the next step."""
    lines = []
    for problem in problems:
        lines += [
            f"ERROR {problem.where(file)}",
            f"  found    {problem.value}",
            f"  allowed  {problem.allowed}",
        ]
    count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    lines.append(f"{count} in {file}. No node was contacted. Correct the file and run it again.")
    return "\n".join(lines)
