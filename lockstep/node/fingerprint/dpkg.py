"""Reads dpkg's database as files, which costs far less than dpkg-query(1)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import exists, rooted, text_of

ADMIN = "/var/lib/dpkg"
STATUS = f"{ADMIN}/status"
MERGED = ("/bin/", "/lib/", "/lib32/", "/lib64/", "/libx32/", "/sbin/")
"""Aliases of folders in /usr (Debian: UsrMerge); a package may list a file under either name."""


class Package(NamedTuple):
    """One paragraph of dpkg's status."""

    name: str
    architecture: str
    version: str
    want: str
    """``install``, ``hold``, ``deinstall`` or ``purge`` (dpkg(1), package selection states)."""
    error: str
    """``ok`` or ``reinstreq``."""
    state: str
    """``installed``, ``config-files``, ``half-configured``, ... (dpkg(1), package states)."""
    conffiles: tuple[str, ...]
    """Lines of path, MD5, and flags."""


def has_dpkg() -> bool:
    """Return whether this node's packages are Debian's."""
    return exists(STATUS)


def packages() -> tuple[Package, ...]:
    """Return all packages that dpkg knows; raise ``Unread`` if that fails."""
    about = os.stat(rooted(STATUS))
    return _packages(rooted(STATUS), about.st_mtime_ns, about.st_size, about.st_ino)


@lru_cache(maxsize=1)
def _packages(_path: str, *_version: int) -> tuple[Package, ...]:
    return tuple(map(_package, filter(str.strip, text_of(STATUS).split("\n\n"))))


def _package(paragraph: str) -> Package:
    text = f"\n{paragraph}\n"
    want, error, state = [*value_of("Status", text).split(), "", "", ""][:3]
    start = text.find("\nConffiles:\n ")
    conffiles: list[str] = []
    if start >= 0:
        end = start + len("\nConffiles:\n")
        while text.startswith(" ", end):
            end = text.find("\n", end) + 1
        conffiles = text[start + len("\nConffiles:\n") : end].splitlines()
    architecture, version = value_of("Architecture", text), value_of("Version", text)
    return Package(
        value_of("Package", text), architecture, version, want, error, state, tuple(conffiles)
    )


def value_of(field: str, paragraph: str) -> str:
    """Return the value of a field of one line; empty if it is missing."""
    start = paragraph.find(f"\n{field}: ")
    if start < 0:
        return ""
    start += len(field) + 3
    return paragraph[start : paragraph.find("\n", start)]


ALGORITHMS = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
"""Length of a digest in hexadecimal -> its algorithm, as hashlib names it."""


def algorithm(digest: str) -> str:
    """Return the name of a digest's algorithm; raise ``Unread`` if it is unknown."""
    try:
        return ALGORITHMS[len(digest)]
    except KeyError:
        raise Unread(f"a package has a digest of an unknown kind: {digest[:80]!r}") from None


class Conffile(NamedTuple):
    """A file of configuration as its package ships it."""

    package: str
    digest: str
    """Hexadecimal: MD5 of dpkg's, mostly SHA-256 of RPM's."""


def conffiles() -> dict[str, Conffile]:
    """Return the files of configuration of the installed packages, keyed by path.

    A file that its package no longer ships, or that was not unpacked yet, has no known content
    (deb-conffiles(5)).
    """
    found: dict[str, Conffile] = {}
    if not has_dpkg():
        return found
    for package in packages():
        if package.state != "installed":
            continue
        for line in package.conffiles:
            words = line.rsplit(None, 2)
            if len(words[-1]) == 32:
                path, _, md5 = line.strip().rpartition(" ")
                found[path] = Conffile(package.name, md5)
    return found


def diversions() -> list[tuple[str, str, str]]:
    """Return what dpkg-divert(1) moved: path, where to, and package (``:`` is local)."""
    lines = text_of(f"{ADMIN}/diversions", "").splitlines()
    return [(a, b, c) for a, b, c in zip(lines[::3], lines[1::3], lines[2::3])]  # noqa: B905


def lists() -> Iterator[tuple[str, bytes, int]]:
    """Yield each package that has a list of files: its name, the list, and the list's ctime."""
    try:
        folder = os.open(rooted(f"{ADMIN}/info"), os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise Unread(f"{ADMIN}/info: {error.strerror}") from None
    try:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".list"):
                file = os.open(name, os.O_RDONLY, dir_fd=folder)
                try:
                    about = os.fstat(file)
                    data = os.read(file, about.st_size)
                finally:
                    os.close(file)
                yield name[: -len(".list")], data, about.st_ctime_ns
    finally:
        os.close(folder)


def owned_below(folders: tuple[str, ...]) -> frozenset[str]:
    """Return the paths below these folders that belong to packages."""
    found: set[str] = set()
    if not has_dpkg():
        return frozenset()
    inside = tuple(f"{folder}/" for folder in folders)
    starts = [f"\n{folder}".encode() for folder in inside]
    for _, data, _ in lists():
        if any(start in data for start in starts):
            lines = data.decode("utf-8", "surrogateescape").split("\n")
            found.update(line for line in lines if line.startswith(inside))
    return frozenset(found)


def merged(path: str) -> str:
    """Return the path of a file below /usr where it is listed below an alias."""
    return f"/usr{path}" if path.startswith(MERGED) else path
