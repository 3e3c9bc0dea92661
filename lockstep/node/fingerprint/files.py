"""The domain ``file``: files, links and folders of configuration.

A file costs an opened descriptor, which all is read through: a path is looked up once.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from lockstep.node.fingerprint.attributes import (
    add_attributes,
    forget_names,
    owner_of,
    read_open,
)
from lockstep.node.fingerprint.dpkg import conffiles, owned_below
from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret, content
from lockstep.node.fingerprint.places import (
    GROWN,
    HOME_FOLDERS,
    PLACES,
    PRUNED,
    Place,
    far_away,
    homes,
)
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import rooted

EDGE = 16 << 10
"""Bytes that are read at each end of a large file."""
OPENED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
FOLDER = OPENED | os.O_DIRECTORY
KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "pipe",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}
READERS = 0o4
SEARCHERS = 0o1
SNAKEOIL = "ssl-cert-snakeoil.pem"
"""A link to it in /etc/ssl/certs has a name that is the hash of a subject with the host's name."""
CRONTABS = "/var/spool/cron/"
CRON_HEADER = (b"# DO NOT EDIT", b"# (")
"""crontab(1) begins a file with lines that hold the time of installation."""


def basic(about: os.stat_result) -> Fields:
    """Return the fields that every file has."""
    kind = stat.S_IFMT(about.st_mode)
    fields = {"type": KINDS.get(kind, "unknown"), "owner": owner_of(about.st_uid, about.st_gid)}
    if kind != stat.S_IFLNK:
        fields["mode"] = f"{stat.S_IMODE(about.st_mode):o}"
    if kind in (stat.S_IFCHR, stat.S_IFBLK):
        fields["device"] = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
    return fields


class Files:
    """Reads files with all that an operator can change about them."""

    def __init__(self) -> None:
        """Read what is known about files beforehand."""
        forget_names()
        self.conffiles = conffiles()
        self.seen: set[str] = set()
        self.owned = owned_below(("/opt", "/usr/local"))
        self.far = far_away()

    def place(self, place: Place) -> Iterator[Entry]:
        """Yield a folder and all below it."""
        yield from self._folder(place, place.path, rooted(place.path), None, True, 0)

    def home(self, home: str) -> Iterator[Entry]:
        """Yield a home's settings: its hidden files, and the folders that programs look into."""
        if any(home == far or home.startswith(f"{far}/") for far in self.far):
            return
        place = Place(home)
        with suppress(OSError):
            opened = os.open(rooted(home), FOLDER)
            try:
                about = os.fstat(opened)
                public = bool(about.st_mode & SEARCHERS) and home != "/root"
                yield Entry(home, self._open_fields(opened, basic(about)))
                for entry in self._listed(opened):
                    if entry.name[0] == "." and not entry.name.startswith(GROWN):
                        if not entry.is_dir(follow_symlinks=False):
                            yield from self._entry(place, home, entry, opened, public, 0)
                for name in HOME_FOLDERS:
                    path = f"{home}/{name}"
                    yield from self._folder(place, path, rooted(path), None, public, 0)
            finally:
                os.close(opened)

    def missing(self) -> Iterator[Entry]:
        """Yield the files of configuration that a package shipped and that are not there."""
        for path, shipped in self.conffiles.items():
            if path not in self.seen and not os.path.lexists(rooted(path)):
                yield Entry(
                    path, {"type": "absent", "package": shipped.package, "shipped": "removed"}
                )

    @staticmethod
    def _open_fields(opened: int, fields: Fields) -> Fields:
        add_attributes(opened, fields)
        return fields

    @staticmethod
    def _listed(opened: int) -> list[os.DirEntry[str]]:
        with os.scandir(opened) as entries:
            return list(entries)

    def _folder(
        self, place: Place, path: str, name: str, inside: int | None, public: bool, depth: int
    ) -> Iterator[Entry]:
        try:
            opened = os.open(name, FOLDER, dir_fd=inside)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            yield Entry(path, {"type": "folder", "content": f"unread: {error.strerror}"})
            return
        try:
            about = os.fstat(opened)
            fields = self._open_fields(opened, basic(about))
            entries = self._listed(opened)
            if place.most and depth >= 2 and entries_below(opened, place.most) > place.most:
                fields["entries"] = f"more than {place.most}"
                entries = []
            yield Entry(path, fields)
            public = public and bool(about.st_mode & SEARCHERS)
            for entry in entries:
                yield from self._entry(place, path, entry, opened, public, depth)
        finally:
            os.close(opened)

    def _entry(
        self,
        place: Place,
        folder: str,
        entry: os.DirEntry[str],
        inside: int,
        public: bool,
        depth: int,
    ) -> Iterator[Entry]:
        name = entry.name
        path = f"{folder}/{name}"
        if path in self.far or path in PRUNED or path in self.owned:
            # A package's folder may hold files that belong to none.
            if path not in self.owned or not entry.is_dir(follow_symlinks=False):
                return
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:  # it was removed in the meantime
            return
        kind = stat.S_IFMT(about.st_mode)
        if kind == stat.S_IFDIR:
            for found in self._folder(place, path, name, inside, public, depth + 1):
                if found.name not in self.owned:
                    yield found
            return
        fields = basic(about)
        if kind == stat.S_IFREG:
            self._read(place, path, name, inside, about, public, fields)
        elif kind == stat.S_IFLNK:
            with suppress(OSError):
                fields["target"] = os.readlink(name, dir_fd=inside)
            if fields.get("target", "").endswith(SNAKEOIL):
                return
        yield Entry(path, fields)

    def _read(
        self,
        place: Place,
        path: str,
        name: str,
        inside: int,
        about: os.stat_result,
        public: bool,
        fields: Fields,
    ) -> None:
        try:
            opened = os.open(name, OPENED, dir_fd=inside)
            try:
                data = read_open(opened, about.st_size, place.largest, EDGE)
                add_attributes(opened, fields)
            finally:
                os.close(opened)
        except OSError as error:
            fields["content"] = f"unread: {error.strerror}"
            return
        shipped = self.conffiles.get(path)
        if shipped is not None:
            self.seen.add(path)
            fields["package"] = shipped.package
            if isinstance(data, bytes):
                same = hashlib.md5(data).hexdigest() == shipped.md5  # noqa: S324
                fields["shipped"] = "yes" if same else "changed"
        if isinstance(data, bytes):
            if path.startswith(CRONTABS):
                data = without_header(data)
            data = content(data)
        fields["content"] = data if public and about.st_mode & READERS else Secret(data)


def entries_below(opened: int, most: int) -> int:
    """Return how many entries a folder has, with those of its folders; counting ends at a limit."""
    count = 0
    with os.scandir(opened) as entries:
        for entry in entries:
            count += 1
            if count > most:
                break
            if entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    inside = os.open(entry.name, FOLDER, dir_fd=opened)
                    try:
                        count += entries_below(inside, most - count)
                    finally:
                        os.close(inside)
    return count


def without_header(data: bytes) -> bytes:
    """Return a crontab without the lines that crontab(1) puts before it."""
    lines = data.splitlines(keepends=True)
    while lines and lines[0].startswith(CRON_HEADER):
        del lines[0]
    return b"".join(lines)


def read_files(_request: Request, _commands: Commands) -> Iterator[Entry]:
    """Every file, link and folder of configuration, except those of PRUNED and of other machines.

    Fields: ``type``, ``owner`` (user and group by name), ``mode``, ``content``, ``target`` of a
    link, ``device``, ``flags`` (chattr(1)), ``capabilities``, ``acl``, ``default_acl``, and
    ``xattr NAME``. A file of configuration of a Debian package has ``package``, and whether its
    content is as shipped.
    """
    files = Files()
    for place in PLACES:
        yield from files.place(place)
    for home in homes():
        yield from files.home(home)
    yield from files.missing()


FILES: tuple[Domain, ...] = (Domain("file", read_files, buckets=64),)
