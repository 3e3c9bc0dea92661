"""What files are on a node: content hash, mode, owner, group, for many paths in one reading."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.facts.reading import Question, Taken


@dataclass(frozen=True)
class FileState:
    """One regular file as it is."""

    sha256: str
    mode: str
    """Octal, without leading zeros: ``644``."""
    user: str
    group: str


def file_states(paths: tuple[str, ...]) -> Question[dict[str, FileState | None]]:
    """Ask for the state of each file; None for one that is not there as a regular file."""

    def answer(taken: Taken) -> dict[str, FileState | None]:
        return {path: _state(taken.item("files", path)) for path in paths}

    return Question("files", ("files",), answer, {"files": paths})


def _state(found: dict[str, str]) -> FileState | None:
    return FileState(**found) if "sha256" in found else None
