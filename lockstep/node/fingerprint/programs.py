"""The domain ``program``: what /usr has beside the packages' files, or instead of them.

Of what packages have below /var, only folders with an unusual owner or mode are objects; of other
folders two levels below it, those that everybody may write to.

It looks at every file of /usr, so it runs rarely. dpkg knows no modes and owners: unusual ones are
objects. A file's content is read only if the file changed after its package's list was written
(ctime cannot be set), and is then compared with the package's MD5 (deb-md5sums(5)). RPM knows all
that of each file: see ``rpm``.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from contextlib import suppress

from lockstep.node.fingerprint import rpm
from lockstep.node.fingerprint.attributes import add_attributes, forget_names
from lockstep.node.fingerprint.dpkg import (
    ADMIN,
    algorithm,
    diversions,
    has_dpkg,
    lists,
    merged,
)
from lockstep.node.fingerprint.entry import Entry, Fields
from lockstep.node.fingerprint.files import FOLDER, OPENED, basic, entries_below
from lockstep.node.fingerprint.packages import has_rpm
from lockstep.node.fingerprint.places import PLACES, far_away
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import below, bytes_of, exists, found_by, rooted

TOPS = ("/usr", "/opt")
PROGRAMS = ("/usr/bin", "/usr/sbin")
SPECIAL = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
OPEN = stat.S_IWOTH | stat.S_ISVTX
"""The bits of a folder in which everybody may write, and remove what others wrote (inode(7))."""
MOST_S = 15.0
"""Seconds for all files. The probe ends after 25 s, and would then have no fingerprint at all."""
LEFT_OUT = (
    *("/usr/share/doc/", "/usr/share/man/", "/usr/share/locale/", "/usr/share/info/"),
    *("/usr/share/lintian/", "/usr/share/groff/", "/usr/share/linda/", "/usr/share/bug/"),
)
"""What images of containers leave out (dpkg(1), --path-exclude)."""
COMPILED = "__pycache__"
SCRIPTS = ("preinst", "postinst", "prerm", "postrm", "config", "triggers")
"""Scripts of packages in dpkg's own folder (deb(5))."""


class Owned:
    """The files of packages, and when each was unpacked at the latest."""

    def __init__(self, commands: Commands) -> None:
        """Read the packages' lists."""
        self.packages: dict[str, str] = {}
        self.states: dict[str, str] = {}
        """Paths below /var, where packages have folders for what their programs write."""
        self.unpacked: dict[str, int] = {}
        self._sums: dict[str, dict[str, str]] = {}
        self.rpm: rpm.Database | None = None
        if has_dpkg():
            moved = {merged(path): (merged(to), by) for path, to, by in diversions()}
            for package, data, when in lists():
                self.unpacked[package] = when
                for line in data.decode("utf-8", "surrogateescape").split("\n"):
                    if line.startswith("/var/"):
                        self.states[line] = package
                        continue
                    path = merged(line)
                    if path.startswith(("/usr/", "/opt/")):
                        to, by = moved.get(path, (path, ""))
                        name = package.partition(":")[0]
                        self.packages[path if by == name else to] = package
        elif has_rpm():
            self.rpm = rpm.Database(commands, tuple(f"{top}/" for top in TOPS))
            self.packages = self.rpm.packages()
        else:
            raise Unread("neither dpkg nor RPM has a database here")

    def md5(self, package: str, path: str) -> str:
        """Return the MD5 of a file as its package has it; empty if the package has none."""
        if package not in self._sums:
            sums: dict[str, str] = {}
            name = f"{ADMIN}/info/{package}.md5sums"
            if exists(name):
                for line in bytes_of(name).decode("utf-8", "surrogateescape").splitlines():
                    md5, _, listed = line.partition("  ")
                    sums[merged(f"/{listed}")] = md5
            self._sums[package] = sums
        return self._sums[package].get(path, "")


class Programs:
    """Looks at all files below /usr and /opt."""

    def __init__(self, commands: Commands) -> None:
        """Read what packages own."""
        forget_names()
        self.owned, self.far = Owned(commands), far_away()
        self.found: list[Entry] = []
        self.left = set(self.owned.packages)
        self.scripts: dict[str, Fields] = {}
        self.until = time.monotonic() + MOST_S
        self.later: dict[str, int] = {}
        """RPM's files whose ctime alone says that they changed -> that, in nanoseconds."""
        self.verified = 0
        """How many of RPM's files have a known content."""

    def read(self) -> list[Entry]:
        """Return the objects."""
        for top in TOPS:
            self._folder(top, rooted(top), None)
        for place in PLACES:
            if place.most:
                self._large(place.path, place.most, 0)
        self._later()
        self._missing()
        self._states()
        self._scripts()
        return self.found

    def _folder(self, path: str, name: str, inside: int | None) -> None:
        if path in self.far:
            return
        try:
            opened = os.open(name, FOLDER, dir_fd=inside)
        except OSError:
            return
        try:
            with os.scandir(opened) as entries:
                for entry in entries:
                    self._entry(f"{path}/{entry.name}", entry, opened)
        finally:
            os.close(opened)

    def _in_time(self, path: str) -> None:
        if time.monotonic() > self.until:
            raise Unread(f"{path}: reached only after {MOST_S:g} s")

    def _entry(self, path: str, entry: os.DirEntry[str], inside: int) -> None:
        self._in_time(path)
        package = self.owned.packages.get(path, "")
        self.left.discard(path)
        additional = path.startswith(("/opt/", "/usr/local/"))
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:
            return
        kind, special = stat.S_IFMT(about.st_mode), about.st_mode & SPECIAL
        if kind == stat.S_IFDIR:
            if entry.name != COMPILED:
                self._folder(path, entry.name, inside)
            if package and self.owned.rpm:
                self._compared(path, about)
            elif package and unusual(about, path):
                self.found.append(Entry(path, {**basic(about), "package": package}))
            elif not package and not additional and entry.name != COMPILED:
                self.found.append(Entry(path, {**basic(about), "package": "none"}))
            return
        if additional and not package:
            return  # the domain ``file`` has it
        if package and self.owned.rpm:
            self._compared(path, about)
            return
        when = self.owned.unpacked.get(package, about.st_ctime_ns)
        suspect = not package or about.st_ctime_ns > when
        if not (suspect or special or unusual(about, path)):
            return
        fields = {**basic(about), "package": package or "none"}
        if kind == stat.S_IFLNK:
            with suppress(OSError):
                fields["target"] = os.readlink(entry.name, dir_fd=inside)
        if kind == stat.S_IFREG:
            self._content(path, entry.name, inside, about, package if suspect else "", fields)
        worth = {"content", "capabilities", "flags", "acl"} & fields.keys()
        if not package or worth or special or unusual(about, path):
            self.found.append(Entry(path, fields))

    def _compared(self, path: str, about: os.stat_result) -> None:
        """Compare a file with the package of RPM that has it."""
        assert self.owned.rpm is not None
        # Several packages may own it: it is right if it is as in one of them.
        found = [(rpm.deviations(file, about, path), file) for file in self.owned.rpm.files(path)]
        wrong, file = min(found, key=lambda one: len(one[0]))
        known = file.has_content and file.state == rpm.NORMAL and stat.S_ISREG(about.st_mode)
        self.verified += known
        if wrong or (known and rpm.is_touched(file, about)):
            self._examine(path, about, file, wrong)
        elif known and about.st_ctime_ns > self.owned.rpm.unpacked(file):
            self.later[path] = about.st_ctime_ns

    def _later(self) -> None:
        """Look into the files of RPM whose size and mtime are right, and that changed later."""
        assert self.owned.rpm is not None or not self.later
        copied = rpm.copied(self.later.values(), self.verified)
        for path, ctime in self.later.items():
            if ctime > copied and self.owned.rpm:
                self._in_time(path)
                with suppress(OSError):
                    about = os.lstat(rooted(path))
                    self._examine(path, about, self.owned.rpm.files(path)[0], {})

    def _examine(self, path: str, about: os.stat_result, file: rpm.Shipped, wrong: Fields) -> None:
        """Add a file of RPM if it is not as its package has it.

        Args:
            path: its path.
            about: the file on the node.
            file: the file of the package.
            wrong: the fields that are known to be wrong, with the right values.
        """
        fields = {**basic(about), "package": file.package}
        if stat.S_ISLNK(about.st_mode):
            with suppress(OSError):
                fields["target"] = os.readlink(rooted(path))
        if stat.S_ISREG(about.st_mode):
            try:
                opened = os.open(rooted(path), OPENED)
            except OSError as error:
                fields["content"] = f"unread: {error.strerror}"
            else:
                try:
                    add_attributes(opened, fields)
                    if file.has_content:
                        name = algorithm(file.digest)
                        found = rpm.digest_of(opened, name)
                        if found != file.digest:
                            fields["content"] = f"{about.st_size} bytes, {name} {found}"
                            wrong = {**wrong, "content": f"{name} {file.digest}"}
                finally:
                    os.close(opened)
            wanted = rpm.capabilities_of(file.capabilities)
            if fields.get("capabilities", "") == wanted or not file.verified & rpm.CAPS:
                fields.pop("capabilities", None)
            else:
                wrong = {**wrong, "capabilities": wanted or "none"}
        if wrong:
            fields["shipped"] = ", ".join(f"{name} {value}" for name, value in wrong.items())
        if wrong or {"content", "flags", "acl"} & fields.keys():
            self.found.append(Entry(path, fields))

    def _content(
        self,
        path: str,
        name: str,
        inside: int,
        about: os.stat_result,
        package: str,
        fields: Fields,
    ) -> None:
        try:
            opened = os.open(name, OPENED, dir_fd=inside)
        except OSError as error:
            fields["content"] = f"unread: {error.strerror}"
            return
        try:
            add_attributes(opened, fields)
            shipped = self.owned.md5(package, path) if package else ""
            if shipped or fields["package"] == "none":
                md5 = rpm.digest_of(opened)
                if md5 != shipped:
                    fields["content"] = f"{about.st_size} bytes, MD5 {md5}"
                    if shipped:
                        fields["shipped"] = f"MD5 {shipped}"
        finally:
            os.close(opened)

    def _large(self, path: str, most: int, depth: int) -> None:
        """Add one sum for a large folder of additional software (``Place.most``)."""
        try:
            opened = os.open(rooted(path), FOLDER)
        except OSError:
            return
        try:
            if path in self.far:
                return
            if depth >= 2 and entries_below(opened, most) > most:
                count, names = sum_of(opened)
                self.found.append(
                    Entry(path, {"entries": str(count), "names, sizes and modes": names})
                )
            else:
                with os.scandir(opened) as entries:
                    inner = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
                for name in inner:
                    self._large(f"{path}/{name}", most, depth + 1)
        finally:
            os.close(opened)

    def _missing(self) -> None:
        database = self.owned.rpm
        for path in self.left:
            if database and all(file.may_be_absent for file in database.files(path)):
                continue
            if not path.startswith(LEFT_OUT) and not os.path.lexists(rooted(path)):
                package = self.owned.packages[path]
                self.found.append(Entry(path, {"type": "absent", "package": package}))

    def _states(self) -> None:
        """Add the folders below /var with an unusual owner or mode; their files are data."""
        for path, package in self.owned.states.items():
            if any(f"{path}/".startswith(f"{far}/") for far in self.far):
                continue
            with suppress(OSError):
                about = os.lstat(rooted(path))
                if stat.S_ISDIR(about.st_mode) and unusual(about, path):
                    self.found.append(Entry(path, {**basic(about), "package": package}))
        for name in below("/var"):
            if f"/var/{name}" not in self.far:
                self._open(f"/var/{name}")

    def _open(self, top: str) -> None:
        """Add the folders of no package in which everybody may write, and remove files."""
        mode = os.lstat(rooted(top)).st_mode
        if not stat.S_ISDIR(mode) or mode & stat.S_IWOTH:
            return  # people and jobs make folders in one like /var/tmp
        for path in (f"{top}/{name}" for name in below(top)):
            if path not in self.owned.states and path not in self.far:
                with suppress(OSError):
                    about = os.lstat(rooted(path))
                    if stat.S_ISDIR(about.st_mode) and about.st_mode & OPEN == stat.S_IWOTH:
                        self.found.append(Entry(path, dict(basic(about))))

    def _scripts(self) -> None:
        """Add the scripts of packages: one edited with its size and time restored shows no trace.

        The content is part of the package's version, and neither list nor sums contain it.
        """
        for path in found_by(f"{ADMIN}/info/*.*"):
            package, _, kind = path.rpartition("/")[2].rpartition(".")
            if kind in SCRIPTS:
                name = f"scripts of {package}"
                with suppress(OSError), open(rooted(path), "rb") as file:
                    about = os.fstat(file.fileno())
                    mode = f"{stat.S_IMODE(about.st_mode):o}"
                    self.scripts.setdefault(name, {})[kind] = (
                        f"MD5 {rpm.digest_of(file.fileno())}, {mode}"
                    )
        self.found.extend(Entry(name, fields) for name, fields in self.scripts.items())


def unusual(about: os.stat_result, path: str) -> bool:
    """Return whether a file's mode or owner is none that packages usually give."""
    if about.st_uid or about.st_gid:
        return True
    mode, kind = stat.S_IMODE(about.st_mode), stat.S_IFMT(about.st_mode)
    if kind == stat.S_IFREG:
        return mode != 0o755 if path.startswith(PROGRAMS) else mode not in (0o644, 0o755)
    return kind == stat.S_IFDIR and mode != 0o755


def sum_of(opened: int) -> tuple[int, str]:
    """Return how many entries are below a folder, and a hash of their names, sizes and modes."""
    rows: list[str] = []

    def add(folder: int, path: str) -> None:
        with os.scandir(folder) as entries:
            for entry in entries:
                about = entry.stat(follow_symlinks=False)
                is_file = stat.S_ISREG(about.st_mode)
                size = about.st_size if is_file else 0
                rows.append(f"{path}{entry.name}\0{about.st_mode:o}\0{size}")
                if stat.S_ISDIR(about.st_mode) and entry.name != COMPILED:
                    with suppress(OSError):
                        inside = os.open(entry.name, FOLDER, dir_fd=folder)
                        try:
                            add(inside, f"{path}{entry.name}/")
                        finally:
                            os.close(inside)

    add(opened, "")
    text = "\n".join(sorted(rows)).encode("utf-8", "surrogateescape")
    return len(rows), hashlib.blake2b(text, digest_size=16).hexdigest()


def read_programs(_request: Request, commands: Commands) -> Iterator[Entry]:
    """Files below /usr and /opt that are not as a package ships them.

    Objects: files and folders that no package owns; files whose content is not the package's;
    those that are gone; large folders of additional software; the scripts of packages. dpkg knows
    no more, so those with set-user-ID, set-group-ID, capabilities, or an unusual mode or owner are
    objects, too. Of RPM's files, those are that have others than their package says. Fields: those
    of a file, with ``package``, ``content`` and ``shipped`` as hashes.
    """
    yield from Programs(commands).read()
