"""Reads the newest version of every package from an image's apt lists."""

import re
from pathlib import Path

from lab.errors import LabError

# A run of non-digits and the following digits; deb-version(7) compares versions by such pairs.
_PARTS = re.compile(r"(\D*)(\d*)")

Key = tuple[int, tuple[tuple[tuple[int, ...], int], ...], tuple[tuple[tuple[int, ...], int], ...]]


def _character_order(character: str) -> int:
    """Return a sort key: '~' sorts before the end of the text, letters before other characters."""
    if character == "~":
        return -1
    return ord(character) if character.isalpha() else ord(character) + 256


def _part_key(text: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    # The 0 after each run of non-digits marks the end: it sorts after '~' and before the rest.
    return tuple(
        ((*(_character_order(c) for c in letters), 0), int(digits or 0))
        for letters, digits in _PARTS.findall(text)
    )


def version_key(version: str) -> Key:
    """Return the sort key of a Debian version: ``[epoch:]upstream[-revision]``."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "0")
    return int(epoch), _part_key(upstream), _part_key(revision)


def newest_versions(lists: Path) -> dict[str, str]:
    """Return binary package -> newest version from all package lists in a folder.

    Raises:
        LabError: the folder has no uncompressed list.
    """
    paths = sorted(lists.glob("*_Packages"))
    if not paths:
        raise LabError(f"{lists}: no *_Packages file; the image has no package lists")
    newest: dict[str, str] = {}
    for path in paths:
        name = ""
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("Package: "):
                    name = line[9:].strip()
                elif line.startswith("Version: "):
                    version = line[9:].strip()
                    known = newest.get(name)
                    if known is None or (
                        version != known and version_key(version) > version_key(known)
                    ):
                        newest[name] = version
    return newest
