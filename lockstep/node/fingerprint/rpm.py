"""Asks RPM's database through rpm(8), and compares files with it as ``rpm -V`` does.

``rpm -V`` reads every file. Here a content is read only if the size, the mtime or the ctime says
that the file may have changed since RPM unpacked it: nobody can set the ctime (inode(7)).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from lockstep.node.fingerprint.attributes import CAPABILITIES, owner_of
from lockstep.node.fingerprint.dpkg import Conffile, merged
from lockstep.node.fingerprint.entry import Fields
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import rooted

PIECE = 1 << 20
"""Bytes of a file that are read at once."""
UNCHECKED = ("--nodigest", "--nosignature")
"""rpm(8) otherwise checks the signature of each package's header again."""
QUERY = "package\\t%{NAME}.%{ARCH}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"
NO_FILES = "(contains no files)"
DUMPED = re.compile(r"(/.*) \d+ \d+ ([0-9a-f]*) 0\d+ \S+ \S+ \d \d \d+ .*")
"""A line of --dump (rpm(8)): path, size, mtime, digest, mode, owner, group, isconfig, isdoc, rdev,
target of a link."""
LISTED = (
    "[%{=NAME}.%{=ARCH}\\t%{=INSTALLTIME}\\t%{FILESTATES}\\t%{FILEFLAGS}\\t%{FILEVERIFYFLAGS}\\t"
    "%{FILEMODES}\\t%{FILEUSERNAME}:%{FILEGROUPNAME}\\t%{LONGFILESIZES}\\t%{FILEMTIMES}\\t"
    "%{FILEDIGESTS}\\t%{FILECAPS}\\t%{FILELINKTOS}\\t%{FILENAMES}\\n]"
)
NORMAL, NOT_INSTALLED, NET_SHARED = 0, 2, 3
"""States of a file (rpmfi.h, rpmfileState_e): as packaged; not installed, such as documentation;
on a file system of other machines. The others are replaced by another package's file."""
MISSING_OK, GHOST = 1 << 3, 1 << 6
"""rpmfiles.h, rpmfileAttrs_e: the file may be absent; it belongs to the package without content."""
DIGEST, LINK, USER, GROUP, MODE, CAPS = 1, 1 << 2, 1 << 3, 1 << 4, 1 << 6, 1 << 8
"""What the package wants verified (rpmvf.h, rpmVerifyAttrs_e)."""
UNPACKING_S = 300
"""Seconds in which a package is unpacked, at most. A file that changes in this time, and keeps its
size and mtime, is taken as unpacked."""
PAUSE_NS = 60 * 10**9
"""The ctimes of a copied tree have no gap of this length."""
CLAUSE = re.compile(r"([a-z_,0-9]*)([=+-])([eip]*)")


class Installed(NamedTuple):
    """The packages of RPM, and their files of configuration."""

    versions: dict[str, list[str]]
    """Name and architecture -> versions: several of a kernel."""
    conffiles: dict[str, Conffile]


@lru_cache(maxsize=1)
def installed_packages(commands: Commands) -> Installed:
    """Return what is installed; rpm(8) is asked once for all domains.

    Raises:
        Unread: rpm(8) failed, or printed something unknown.
    """
    versions: dict[str, list[str]] = {}
    conffiles: dict[str, Conffile] = {}
    package = ""
    out = commands.run("rpm", "-qa", *UNCHECKED, "--configfiles", "--dump", "--qf", QUERY)
    for line in out.split("\n")[:-1]:
        if line.startswith("package\t"):
            _, package, version = line.split("\t")
            versions.setdefault(package, []).append(version)
        elif line.startswith("/") and package:
            match = DUMPED.fullmatch(line)
            if match is None:
                raise Unread(f"rpm -qa --dump printed {line[:80]!r}")
            path, digest = match.groups()
            before = conffiles.get(path)
            # Several packages may own it; the order in which rpm(8) lists them is by chance.
            if digest.strip("0") and (before is None or package < before.package):
                conffiles[path] = Conffile(package, digest)  # a ghost has no digest
        elif line != NO_FILES:
            raise Unread(f"rpm -qa printed {line[:80]!r}")
    return Installed(versions, conffiles)


class Shipped(NamedTuple):
    """A file as its package has it."""

    package: str
    installed: int
    """When RPM began to unpack the package (Unix time)."""
    state: int
    flags: int
    verified: int
    mode: int
    """With the type, as in ``st_mode``."""
    owner: str
    size: int
    mtime: int
    digest: str
    capabilities: str
    target: str

    @property
    def has_content(self) -> bool:
        """Return whether the package says what the file contains."""
        verified = self.verified & DIGEST and not self.flags & GHOST
        return bool(verified and self.digest and stat.S_ISREG(self.mode))

    @property
    def may_be_absent(self) -> bool:
        """Return whether the file need not exist."""
        left_out = self.state in (NOT_INSTALLED, NET_SHARED)
        return left_out or bool(self.flags & (MISSING_OK | GHOST))


class Database:
    """The files of all packages below some folders."""

    def __init__(self, commands: Commands, folders: tuple[str, ...]) -> None:
        """Ask rpm(8).

        Raises:
            Unread: rpm(8) failed, or printed something unknown.
        """
        self._lines: dict[str, str] = {}
        times: set[str] = set()
        for line in commands.run("rpm", "-qa", *UNCHECKED, "--qf", LISTED).split("\n")[:-1]:
            rest, _, path = line.rpartition("\t")
            if rest.count("\t") != len(Shipped._fields) - 1:
                raise Unread(f"rpm -qa printed {line[:80]!r}")
            path = merged(path)
            if path.startswith(folders):
                # A file of two architectures, and many a folder, belong to several packages.
                before = self._lines.get(path)
                self._lines[path] = rest if before is None else f"{before}\n{rest}"
            times.add(rest.split("\t", 2)[1])
        self._times = sorted(map(int, times))

    def packages(self) -> dict[str, str]:
        """Return the package of each path; of several, the first by name."""
        return {
            path: (min(lines.split("\n")) if "\n" in lines else lines).partition("\t")[0]
            for path, lines in self._lines.items()
        }

    def files(self, path: str) -> list[Shipped]:
        """Return what packages say about a path: those whose file it is, or else all."""
        found = [_shipped(line) for line in sorted(self._lines[path].split("\n"))]
        return [one for one in found if one.state == NORMAL] or found

    def unpacked(self, file: Shipped) -> int:
        """Return the latest ctime of a file that was only unpacked, in nanoseconds.

        RPM unpacks one package after the other, and notes when it began with each.
        """
        following = bisect_right(self._times, file.installed)
        end = file.installed + UNPACKING_S
        if following < len(self._times):
            end = min(end, self._times[following])
        return (end + 1) * 10**9


def _shipped(line: str) -> Shipped:
    words = ["" if word == "(none)" else word for word in line.split("\t")]
    numbers = [int(words[at] or 0) for at in (1, 2, 3, 4, 5, 7, 8)]
    installed_at, state, flags, verified, mode, size, mtime = numbers
    return Shipped(
        words[0], installed_at, state, flags, verified, mode, words[6], size, mtime, *words[9:12]
    )


def deviations(file: Shipped, about: os.stat_result, path: str) -> Fields:
    """Return the fields of a file that are not as its package has them, with the right values.

    Args:
        file: the file of the package. If RPM did not install this one, there are none.
        about: the file on the node.
        path: its path.
    """
    if file.state != NORMAL:
        return {}
    found: Fields = {}
    owner = owner_of(about.st_uid, about.st_gid)
    if file.verified & (USER | GROUP) == USER | GROUP and owner != file.owner:
        found["owner"] = file.owner
    if file.verified & MODE:
        kind = stat.S_IFMT(about.st_mode)
        if stat.S_IFMT(file.mode) != kind and not file.flags & GHOST:
            found["type"] = stat.filemode(file.mode)
        elif kind != stat.S_IFLNK and stat.S_IMODE(file.mode) != stat.S_IMODE(about.st_mode):
            found["mode"] = f"{stat.S_IMODE(file.mode):o}"
    if file.verified & LINK and file.target and stat.S_ISLNK(about.st_mode):
        target = os.readlink(rooted(path))
        if target != file.target and not file.flags & GHOST:
            found["target"] = file.target
    return found


def is_touched(file: Shipped, about: os.stat_result) -> bool:
    """Return whether a file's size or mtime is not the package's."""
    return (about.st_size, about.st_mtime_ns // 10**9) != (file.size, file.mtime)


def copied(ctimes: Iterable[int], files: int) -> int:
    """Return the latest ctime of a tree that was copied as a whole; 0 if it was not.

    An image that was unpacked, or SELinux labels that were set anew, give all files a new ctime.
    What changed later still shows.

    Args:
        ctimes: those of the files that are later than their packages, in nanoseconds.
        files: how many files there are.
    """
    late = sorted(ctimes)
    if 2 * len(late) <= files:
        return 0
    last = late[len(late) // 2]
    for ctime in late[len(late) // 2 :]:
        if ctime - last > PAUSE_NS:
            break
        last = ctime
    return last


def capabilities_of(text: str) -> str:
    """Return the capabilities that a package wants, in the form of ``attributes.capabilities``."""
    letters: dict[str, set[str]] = {}
    for names, how, flags in CLAUSE.findall(text):
        for name in names.split(",") if names not in ("", "all") else _all():
            before = letters.setdefault(name, set())
            letters[name] = {
                "=": set(flags),
                "+": before | set(flags),
                "-": before - set(flags),
            }[how]
    return ",".join(
        sorted(
            f"{name}={''.join(letter for letter in 'eip' if letter in given)}"
            for name, given in letters.items()
            if given
        )
    )


def _all() -> Sequence[str]:
    return [f"cap_{name}" for name in CAPABILITIES]


def digest_of(opened: int, name: str = "md5") -> str:
    """Return the digest of an open file.

    Args:
        opened: descriptor of the file.
        name: the algorithm.
    """
    state = hashlib.new(name, usedforsecurity=False)
    while data := os.read(opened, PIECE):
        state.update(data)
    return state.hexdigest()
