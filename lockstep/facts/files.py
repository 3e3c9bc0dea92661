"""What files are on a node: content hash, mode, owner, group, for many paths in one reading."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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
        # A line for each path, always: with empty output pyinfra would hand out the default.
        return (
            "set --; for f in " + " ".join(shlex.quote(path) for path in paths) + "; do "
            'if [ -f "$f" ] && [ ! -L "$f" ]; then set -- "$@" "$f"; else echo "absent $f"; fi; '
            "done; if [ $# -gt 0 ]; then "
            'stat -c \'file %a %U %G %n\' "$@" && sha256sum "$@"; fi'
        )

    def command_for_many(self, every: Sequence[dict[str, Any]]) -> str:
        """Return a command that reads the files of all (``lockstep.fast.foreseen.ForMany``)."""
        return self.command(dict.fromkeys(path for one in every for path in one["paths"]))

    def outputs_for_many(
        self, every: Sequence[dict[str, Any]], output: Sequence[str]
    ) -> list[list[str]]:
        """Return of its output what ``command`` would say of the files of each.

        Raises:
            ValueError: a line names no file.
            LookupError: a file has no line.
        """
        lines: dict[str, list[str]] = {}
        for line in output:
            # "absent PATH", "file MODE USER GROUP PATH", "HASH  PATH"
            before = 4 if line.startswith("file ") else 1
            path = line.split(" ", before)[before]
            lines.setdefault(path.removeprefix(" "), []).append(line)
        return [[line for path in one["paths"] for line in lines[path]] for one in every]

    @override
    def process(self, output: Iterable[str]) -> dict[str, FileState | None]:
        states: dict[str, FileState | None] = {}
        rights: dict[str, list[str]] = {}
        for line in output:
            what, _, rest = line.partition(" ")
            try:
                if what == "absent":
                    states[rest] = None
                elif what == "file":
                    *words, path = rest.split(" ", 3)
                    rights[path] = words
                else:  # sha256sum(1): hash, blank, how it was read, path
                    states[rest[1:]] = FileState(what, *rights.pop(rest[1:]))
            except (LookupError, TypeError) as error:
                raise FactProcessError(f"file state, unexpected line {line!r}") from error
        if rights:
            raise FactProcessError(f"file state, no hash of {', '.join(rights)}")
        return states
