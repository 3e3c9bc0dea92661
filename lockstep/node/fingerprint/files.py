"""The domain ``file``: files, links and folders of configuration.

A file costs an opened descriptor, which all is read through: a path is looked up once.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache

from lockstep.node.fingerprint.attributes import (
    add_attributes,
    forget_names,
    owner_of,
    read_open,
)
from lockstep.node.fingerprint.certificates import Certificates
from lockstep.node.fingerprint.dpkg import Conffile, algorithm, conffiles, has_dpkg, owned_below
from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret, content
from lockstep.node.fingerprint.packages import has_rpm
from lockstep.node.fingerprint.places import (
    DEVICES,
    GROWN,
    HOME_FOLDERS,
    PLACES,
    PRUNED,
    TOP,
    Place,
    far_away,
    homes,
    shared,
)
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import resolved, rooted

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
UNOWNED = (
    *("/usr/local/lib/lockstep/", "/usr/local/libexec/lockstep/"),
    "/usr/local/lib/python3",  # for pip; packages install below /usr/lib (Debian Python Policy 3.1)
)
BASE = frozenset(
    f"/usr/local/{name}"
    for name in (
        *("bin", "etc", "games", "include", "lib", "libexec", "man", "sbin", "share", "share/man"),
        *("src", "lib64", "lib/lockstep", "libexec/lockstep"),
    )
)
"""What base-files (Debian), filesystem (RHEL) and Lockstep make: no list has to be looked into."""


def basic(about: os.stat_result) -> Fields:
    """Return the fields that every file has."""
    fields = dict(_basic(about.st_mode, about.st_uid, about.st_gid))
    if stat.S_IFMT(about.st_mode) in (stat.S_IFCHR, stat.S_IFBLK):
        fields["device"] = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)}"
    return fields


@lru_cache(maxsize=1024)
def _basic(mode: int, user: int, group: int) -> Fields:
    kind = stat.S_IFMT(mode)
    fields = {"type": KINDS.get(kind, "unknown"), "owner": owner_of(user, group)}
    if kind != stat.S_IFLNK:
        fields["mode"] = f"{stat.S_IMODE(mode):o}"
    return fields


class Files:
    """Reads files with all that an operator can change about them."""

    def __init__(self, shipped: Mapping[str, Conffile], names: Iterable[str] = ()) -> None:
        """Read what is known about files beforehand.

        Args:
            shipped: the packages' files of configuration by path.
            names: the node's names in the plan, which are in its certificates.
        """
        self._certificates = Certificates(names)
        forget_names()
        _basic.cache_clear()
        self.found: list[Entry] = []
        self.conffiles = shipped
        self.far = far_away()
        self._seen: set[str] = set()
        self._owned: frozenset[str] | None = None
        self._digests: dict[str, hashlib._Hash] = {}

    def read(self) -> list[Entry]:
        """Return all files."""
        for place in PLACES:
            if place.path not in self.far:
                self._folder(place, place.path, rooted(place.path), None, True, 0)
        for home in homes():
            # /home may be a link to a file system of other machines.
            real = resolved(home)
            if not any(f"{real}/".startswith(f"{far}/") for far in self.far):
                self._home(real)
        self._top()
        self._missing()
        return self.found

    def _top(self) -> None:
        """Add the highest folders of the tree, what lies in them, and devices; without contents."""
        known = {entry.name for entry in self.found}
        for folder in (*TOP, "/dev", "/dev/infiniband"):
            paths = [folder]
            with suppress(OSError):
                paths += [
                    os.path.join(folder, name)
                    for name in sorted(os.listdir(rooted(folder)))
                    if folder != "/dev" or DEVICES.fullmatch(name)
                ]
            for path in paths:
                # A file system of other machines may hang.
                if path in known or path in self.far:
                    continue
                with suppress(OSError):  # it is absent, or was removed in the meantime
                    fields = basic(os.lstat(rooted(path)))
                    # Those of misc devices are given in the order of loading (MISC_DYNAMIC_MINOR).
                    fields.pop("device", None)
                    if fields["type"] == "link":
                        fields["target"] = os.readlink(rooted(path))
                    self.found.append(Entry(path, fields))
                    known.add(path)

    def _home(self, home: str) -> None:
        """Read a home's hidden files, and the folders that programs take settings from."""
        place = Place(home)
        with suppress(OSError):
            opened = os.open(rooted(home), FOLDER)
            try:
                about = os.fstat(opened)
                fields = basic(about)
                add_attributes(opened, fields)
                self.found.append(Entry(home, fields))
                public = bool(about.st_mode & SEARCHERS)
                for entry in _listed(opened):
                    name, folder = entry.name, entry.is_dir(follow_symlinks=False)
                    if name[0] == "." and not folder and not name.startswith(GROWN):
                        self._entry(place, home, entry, opened, public, 0)
                for name in HOME_FOLDERS:
                    path = f"{home}/{name}"
                    self._folder(place, path, rooted(path), None, public, 0)
            finally:
                os.close(opened)

    def _missing(self) -> None:
        """Add the files of configuration that a package shipped and that are not there."""
        for path, shipped in self.conffiles.items():
            if path not in self._seen and not os.path.lexists(rooted(path)):
                fields = {"type": "absent", "package": shipped.package, "shipped": "removed"}
                self.found.append(Entry(path, fields))

    def _is_owned(self, path: str) -> bool:
        """Return whether a file of additional software belongs to a package.

        The packages' lists are read only if there is such a file beside UNOWNED.
        """
        if path.startswith(UNOWNED):
            return False
        if self._owned is None:
            self._owned = owned_below(tuple(place.path for place in PLACES if place.unowned))
        return path in self._owned

    def _folder(
        self, place: Place, path: str, name: str, inside: int | None, public: bool, depth: int
    ) -> None:
        try:
            opened = os.open(name, FOLDER, dir_fd=inside)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            # A place is a link: it is compared, but not where it leads to.
            with suppress(OSError):
                fields = {**basic(os.lstat(rooted(path))), "target": os.readlink(rooted(path))}
                self.found.append(Entry(path, fields))
            return
        except OSError as error:
            unread = f"unread: {error.strerror}"
            self.found.append(Entry(path, {"type": "folder", "content": unread}))
            return
        try:
            about = os.fstat(opened)
            fields = basic(about)
            add_attributes(opened, fields)
            entries = _listed(opened)
            if place.most and depth >= 2 and entries_below(opened, place.most) > place.most:
                fields["entries"] = f"more than {place.most}"
                entries = []
            if depth == 0 or not place.unowned or path in BASE or not self._is_owned(path):
                self.found.append(Entry(path, fields))
            public = public and bool(about.st_mode & SEARCHERS)
            for entry in entries:
                self._entry(place, path, entry, opened, public, depth)
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
    ) -> None:
        name = entry.name
        path = f"{folder}/{name}"
        if path in self.far or path in PRUNED:
            return
        # scandir() knows the kinds. Asking for more would look each path up once more.
        if entry.is_dir(follow_symlinks=False):
            self._folder(place, path, name, inside, public, depth + 1)
            return
        if place.unowned and path not in BASE and self._is_owned(path):
            return
        if entry.is_file(follow_symlinks=False):
            self._read(place, path, entry, inside, public)
            return
        try:
            about = entry.stat(follow_symlinks=False)
        except OSError:  # it was removed in the meantime
            return
        fields = basic(about)
        if stat.S_ISLNK(about.st_mode):
            with suppress(OSError):
                fields["target"] = target = os.readlink(name, dir_fd=inside)
                if target.endswith(SNAKEOIL):
                    return
                if path in self.conffiles:
                    fields.update(package=self.conffiles[path].package, shipped="changed")
        self.found.append(Entry(path, fields))

    def _read(
        self, place: Place, path: str, entry: os.DirEntry[str], inside: int, public: bool
    ) -> None:
        """Read a file."""
        try:
            opened = os.open(entry.name, OPENED, dir_fd=inside)
            try:
                about = os.fstat(opened)
                fields = basic(about)
                data = read_open(opened, about.st_size, place.largest, EDGE)
                add_attributes(opened, fields)
            finally:
                os.close(opened)
        except OSError as error:
            with suppress(OSError):  # it was removed in the meantime
                fields = basic(entry.stat(follow_symlinks=False))
                fields["content"] = f"unread: {error.strerror}"
                self.found.append(Entry(path, fields))
            return
        shipped = self.conffiles.get(path)
        if shipped is not None:
            self._seen.add(path)
            fields["package"] = shipped.package
            if isinstance(data, bytes):
                fields["shipped"] = "yes" if self._is(data, shipped.digest) else "changed"
        if isinstance(data, bytes):
            data = content(self._certificates.shared(path, shared(path, data)))
        fields["content"] = data if public and about.st_mode & READERS else Secret(data)
        self.found.append(Entry(path, fields))

    def _is(self, data: bytes, digest: str) -> bool:
        """Return whether data has a digest."""
        name = algorithm(digest)
        if name not in self._digests:
            self._digests[name] = hashlib.new(name, usedforsecurity=False)
        state = self._digests[name].copy()  # twenty times as fast as a new one
        state.update(data)
        return state.hexdigest() == digest


def shipped_files(commands: Commands) -> Mapping[str, Conffile]:
    """Return the packages' files of configuration, keyed by path."""
    if has_dpkg() or not has_rpm():
        return conffiles()
    from lockstep.node.fingerprint.rpm import installed_packages  # most nodes have no RPM

    return installed_packages(commands).conffiles


def _listed(opened: int) -> list[os.DirEntry[str]]:
    with os.scandir(opened) as entries:
        return list(entries)


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


def read_files(request: Request, commands: Commands) -> Iterator[Entry]:
    """Every file, link and folder of configuration, except those of PRUNED and of other machines.

    Fields: ``type``, ``owner`` (user and group by name), ``mode``, ``content``, ``target`` of a
    link, ``device``, ``flags`` (chattr(1)), ``capabilities``, ``acl``, ``default_acl``, and
    ``xattr NAME``. A file of configuration of a package has ``package``, and whether its
    content is as shipped.
    """
    names = (value for kind, value in request.get("own", ()) if kind == "name")
    yield from Files(shipped_files(commands), names).read()


FILES: tuple[Domain, ...] = (Domain("file", read_files, buckets=64),)
