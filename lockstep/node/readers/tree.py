"""Reads files and folders; ``Unread`` where that fails."""

from __future__ import annotations

import glob
import os
import re

from lockstep.node.readers.reading import ABSENT, Unread

ROOT = ""
"""Prefix of every path that is read: a test puts a small tree here."""
LARGEST_FILE = 16 << 20


def rooted(path: str) -> str:
    """Return a path below ``ROOT``."""
    return ROOT + path


def exists(path: str) -> bool:
    """Say whether there is anything at a path."""
    return os.path.exists(rooted(path))


def is_folder(path: str) -> bool:
    """Say whether a path is a folder."""
    return os.path.isdir(rooted(path))


def resolved(path: str) -> str:
    """Return a path with all links followed."""
    return os.path.realpath(rooted(path))[len(os.path.realpath(ROOT or "/").rstrip("/")) :]


def text_of(path: str) -> str:
    """Return the content of a text file; ``Unread`` when that cannot be had."""
    try:
        with open(rooted(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        raise Unread(f"{path}: no such file") from None
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None


def bytes_of(path: str, most: int = -1) -> bytes:
    """Return a file, at most so many bytes of it; ``Unread`` when that cannot be had."""
    try:
        with open(rooted(path), "rb") as file:
            return file.read(most)
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None


def line_of(path: str) -> str:
    """Return the first line of a file; ``Unread`` when that cannot be had."""
    return text_of(path).split("\n", 1)[0].strip()


def number_of(path: str) -> int:
    """Return the number that a file holds."""
    return int(line_of(path))


def below(folder: str) -> list[str]:
    """Return the sorted names in a folder; none when it is absent."""
    try:
        return sorted(os.listdir(rooted(folder)))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unread(f"{folder}: {error.strerror}") from None


def said(path: str) -> str:
    """Return the first line of a file; "absent" where there is none."""
    return line_of(path) if exists(path) else ABSENT


def found_by(pattern: str) -> list[str]:
    """Return the sorted paths that a pattern covers."""
    return [path[len(ROOT) :] for path in sorted(glob.glob(rooted(pattern)))]


def assignments(text: str) -> dict[str, str]:
    """Return NAME=value lines of a shell-like file, quotes removed."""
    found = {}
    for line in text.splitlines():
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_]+)=(.*)$", line)
        if match:
            found[match.group(1)] = match.group(2).strip().strip("\"'")
    return found
