"""What files are on a node: content hash, mode, owner, group, for many paths in one reading."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override


@dataclass(frozen=True)
class FileState:
    """One regular file as it is."""

    sha256: str
    mode: str
    """Octal, without leading zeros: ``644``."""
    user: str
    group: str


class FileStates(FactBase[dict[str, FileState | None]]):
    """Returns path -> state of each file; None for one that is not there as a regular file."""

    @override
    def command(self, paths: Iterable[str]) -> str:
        # One line per path, always: with empty output pyinfra would hand out the default.
        return (
            "for f in " + " ".join(shlex.quote(path) for path in paths) + "; do "
            'if [ -f "$f" ] && [ ! -L "$f" ]; then '
            'echo "$(sha256sum < "$f" | cut -d" " -f1) $(stat -c "%a %U %G" "$f") $f"; '
            'else echo "absent - - - $f"; fi; done'
        )

    @override
    def process(self, output: Iterable[str]) -> dict[str, FileState | None]:
        states: dict[str, FileState | None] = {}
        for line in output:
            try:
                digest, mode, user, group, path = line.split(" ", 4)
            except ValueError as error:
                raise FactProcessError(f"file state, unexpected line {line!r}") from error
            states[path] = None if digest == "absent" else FileState(digest, mode, user, group)
        return states
