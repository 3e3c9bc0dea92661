"""Questions about files: their hash, mode, owner and group, and which file is newer."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lockstep.node.readers.files import KINDS
from lockstep.plan.folders import Folder
from lockstep.question import Question, Taken


@dataclass(frozen=True)
class FileState:
    """The current state of a regular file."""

    sha256: str
    mode: str
    """Octal, without leading zeros: ``644``."""
    user: str
    group: str

    def holds(self, text: str) -> bool:
        """Return whether the file has exactly this text, in UTF-8."""
        return self.sha256 == hashlib.sha256(text.encode()).hexdigest()


def file_states(paths: tuple[str, ...]) -> Question[dict[str, FileState | None]]:
    """Ask for the state of each file; None if it is absent or not a regular file."""

    def answer(taken: Taken) -> dict[str, FileState | None]:
        found = {path: taken.item("files", path) for path in paths}
        return {path: FileState(**one) if "sha256" in one else None for path, one in found.items()}

    return Question("files", ("files",), answer, {"files": paths})


def existing(paths: tuple[str, ...]) -> Question[frozenset[str]]:
    """Ask which of these paths exist, whether as a file, a folder or a link that leads nowhere."""

    def answer(taken: Taken) -> frozenset[str]:
        return frozenset(path for path in paths if "absent" not in taken.item("files", path))

    return Question("existing", ("files",), answer, {"files": paths})


def links(paths: tuple[str, ...]) -> Question[dict[str, bool]]:
    """Ask which paths are symbolic links."""

    def answer(taken: Taken) -> dict[str, bool]:
        kind = KINDS[stat.S_IFLNK]
        return {path: taken.item("files", path).get("other") == kind for path in paths}

    return Question("links", ("files",), answer, {"files": paths})


def files_and_texts(
    paths: tuple[str, ...], shown: tuple[str, ...]
) -> Question[dict[str, tuple[dict[str, Any], dict[str, Any] | None]]]:
    """Ask for the state of files as it was read, and for the text of some of them.

    Args:
        paths: the paths of the files.
        shown: the paths of those whose text may leave the node.
    """

    def answer(taken: Taken) -> dict[str, tuple[dict[str, Any], dict[str, Any] | None]]:
        return {
            path: (
                taken.item("files", path),
                taken.item("files.texts", path) if path in shown else None,
            )
            for path in paths
        }

    about = {"files": paths, "texts": shown}
    return Question("files and texts", ("files", "files.texts"), answer, about)


def folders_to_make(folders: Mapping[str, Folder | None]) -> Question[tuple[str, ...]]:
    """Ask which folders are missing or have other rights; an owner that does not exist is another.

    Args:
        folders: path -> the planned rights; None: any rights.
    """

    def wrong(found: Mapping[str, str], rights: Folder | None) -> bool:
        if found.get("other") != KINDS[stat.S_IFDIR]:
            return True
        return rights is not None and any(found[name] != v for name, v in asdict(rights).items())

    def answer(taken: Taken) -> tuple[str, ...]:
        return tuple(
            path for path, rights in folders.items() if wrong(taken.item("files", path), rights)
        )

    return Question("folders", ("files",), answer, {"files": tuple(folders)})


def is_younger(taken: Taken, paths: Iterable[str], than: object) -> bool:
    """Return whether any of these files changed after another file; True if that file is missing.

    Args:
        taken: readings that include ``files.changed`` for the files.
        paths: the paths of the files; a missing file does not count as newer.
        than: the value of ``files.changed`` for the other file.
    """
    if not isinstance(than, str):
        return True
    times = (taken.item("files.changed", path) for path in paths)
    return any(_seconds(time) > _seconds(than) for time in times if isinstance(time, str))


def _seconds(changed: str) -> float:
    return float(changed.split()[0])
