"""Reads files and folders; raises ``Unread`` if that fails."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from lockstep.node.readers.reading import ABSENT, Unread

ROOT = ""
"""Prefix of every path that is read: empty on a node, set to a folder by tests."""
LARGEST_FILE = 16 << 20


def rooted(path: str) -> str:
    """Return a path with ``ROOT`` in front of it."""
    return ROOT + path


def exists(path: str) -> bool:
    """Return whether a path exists."""
    return os.path.exists(rooted(path))


def is_folder(path: str) -> bool:
    """Return whether a path is a folder."""
    return os.path.isdir(rooted(path))


def resolved(path: str) -> str:
    """Return a path with all symbolic links resolved."""
    return os.path.realpath(rooted(path))[len(os.path.realpath(ROOT or "/").rstrip("/")) :]


def text_of(path: str, otherwise: str | None = None) -> str:
    """Return the content of a text file; raise ``Unread`` if it cannot be read.

    Args:
        path: the path of the file.
        otherwise: the value to return if the file does not exist; None: raise ``Unread``.
    """
    if otherwise is not None and not exists(path):
        return otherwise
    return bytes_of(path).decode("utf-8", "replace").replace("\r\n", "\n")


def bytes_of(path: str, most: int = -1) -> bytes:
    """Return a file's content, or its first ``most`` bytes; raise ``Unread`` if that fails."""
    try:
        with open(rooted(path), "rb") as file:
            return file.read(most)
    except FileNotFoundError:
        raise Unread(f"{path}: no such file") from None
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None


def line_of(path: str, otherwise: str | None = None) -> str:
    """Return the first line of a text file; the arguments are those of ``text_of``."""
    return text_of(path, otherwise).split("\n", 1)[0].strip()


def number_of(path: str) -> int:
    """Return the number that a file contains."""
    return int(line_of(path))


def figure_of(path: str) -> float:
    """Return the number that a file begins with: ``16.0 GT/s PCIe`` -> 16.0."""
    text = line_of(path)
    try:
        return float(text.split(" ")[0])
    except ValueError:
        raise Unread(f"{path} does not begin with a number: {text[:60]!r}") from None


def found_in(path: str, pattern: str, what: str) -> str:
    """Return what a pattern's group matches in the first line that matches.

    Args:
        path: the path of the file.
        pattern: a regular expression with one group.
        what: how the error message refers to the text.

    Raises:
        Unread: no line matches, or the file cannot be read.
    """
    match = re.search(pattern, text_of(path), re.MULTILINE)
    if match is None:
        raise Unread(f"{path} contains no {what}")
    return match.group(1)


def rows_of(path: str, after: int = 0) -> list[list[str]]:
    """Return the words of each line of a file, skipping the first ``after`` lines."""
    return [line.split() for line in text_of(path).splitlines()[after:]]


def mounts() -> list[list[str]]:
    """Return the source, mount point, type and options of each mount (proc_mounts(5))."""
    return [row[:4] for row in rows_of("/proc/self/mounts")]


def mode_of(about: os.stat_result) -> str:
    """Return the permissions of a file in octal: ``644``."""
    return f"{stat.S_IMODE(about.st_mode):o}"


def started(process: str) -> int:
    """Return when a process started, in clock ticks since boot (proc_pid_stat(5), starttime)."""
    return int(text_of(f"/proc/{process}/stat").rpartition(")")[2].split()[19])


def command_lines() -> Iterator[tuple[str, str]]:
    """Yield the /proc folder and command line of each process; each argument ends with NUL."""
    for path in found_by("/proc/[0-9]*/cmdline"):
        with suppress(Unread):  # the process has ended in the meantime
            yield os.path.dirname(path), text_of(path)


def below(folder: str) -> list[str]:
    """Return the sorted names in a folder; empty if there is no such folder."""
    try:
        return sorted(os.listdir(rooted(folder)))
    except FileNotFoundError:
        return []


def said(path: str) -> str:
    """Return the first line of a file; "absent" if there is no such file."""
    return line_of(path, ABSENT)


def found_by(pattern: str) -> list[str]:
    """Return the sorted paths that match a glob pattern."""
    return [path[len(ROOT) :] for path in sorted(glob.glob(rooted(pattern)))]


@contextmanager
def in_memory(text: str) -> Iterator[str]:
    """Yield a path at which other programs can read this text; the file exists only in memory."""
    file = os.memfd_create("lockstep")
    try:
        os.write(file, text.encode())
        yield f"/proc/{os.getpid()}/fd/{file}"
    finally:
        os.close(file)


def assignments(text: str) -> dict[str, str]:
    """Return the values in the NAME=value lines of a text, without quotes, keyed by name."""
    found = re.findall(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]+)=(.*)$", text, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in found}
