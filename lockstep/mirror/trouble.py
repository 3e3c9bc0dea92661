"""What keeps a repository from serving a description."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass


def public(text: str) -> str:
    """Return a text without the user names and passwords of addresses in it."""
    return re.sub(r"://[^/\s@]+@", "://", text)


@dataclass(frozen=True)
class Trouble:
    """One problem of a repository, or of a package in it."""

    where: str
    """The repository with its address, or the package with the wanted version."""
    problem: str
    next: str
    """What to do about it."""
    available: tuple[str, ...] = ()
    """The available versions of the package, newest first; each names its repositories."""
    nodes: str = ""
    """The nodes that need the package; empty for a whole repository."""

    def text(self) -> str:
        """Return the problem as lines of text."""
        lines = [f"ERROR {self.where}: {self.problem}"]
        if self.nodes:
            lines += [f"  nodes      {self.nodes}"]
            lines += [f"  available  {', '.join(self.available) or 'no version'}"]
        return public("\n".join([*lines, f"  next       {self.next}"]))

    def to_json(self) -> dict[str, object]:
        """Return the problem as JSON-serializable data."""
        return {
            name: public(value) if isinstance(value, str) else value
            for name, value in asdict(self).items()
        }


class MirrorError(Exception):
    """Raised when repositories cannot be read or copied; holds a ``Trouble`` for each cause."""

    def __init__(self, *troubles: Trouble) -> None:
        """Take the causes, of which there is at least one."""
        super().__init__("\n".join(one.text() for one in troubles))
        self.troubles = troubles


class Unusable(Exception):
    """Raised when an option or a folder cannot be used; the message says why, and what to do."""
