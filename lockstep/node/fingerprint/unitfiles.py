"""The files of systemd's units, as systemd finds them (systemd.unit(5))."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import rooted, text_of

FOLDERS = (
    *("/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient"),
    *("/run/systemd/generator.early", "/etc/systemd/system", "/etc/systemd/system.attached"),
    *("/run/systemd/system", "/run/systemd/system.attached", "/run/systemd/generator"),
    *("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"),
    "/run/systemd/generator.late",
)
"""Where systemd looks for units; the first folder wins (systemd.unit(5), "Unit File Load Path")."""
OF_PACKAGES = ("/usr/lib/systemd/system", "/lib/systemd/system")
OF_CONTROL = ("/etc/systemd/system.control", "/run/systemd/system.control")
"""Folders of ``systemctl set-property``. What is set there applies at once."""
LINKS = (".wants", ".requires", ".upholds")
Settings = dict[str, list[str]]
"""``Section.Name`` -> the values in force. An empty assignment clears the earlier ones."""


class Files:
    """All unit files, drop-ins and links between units."""

    def __init__(self) -> None:
        """List the folders."""
        self.fragments: dict[str, str] = {}
        """Unit -> path of its file. A masked one is a link to /dev/null, or empty."""
        self.links: dict[str, list[str]] = {}
        """Unit -> folders that link to it, such as ``multi-user.target.wants``."""
        self.aliases: dict[str, str] = {}
        """Unit -> the unit that its link points at."""
        self.of_admin: set[str] = set()
        """Units with a file, link or drop-in that no package brought."""
        self.folders: dict[str, list[str]] = {}
        """Name of a drop-in folder -> its paths, in the order of ``FOLDERS``."""
        self._called: dict[str, list[str]] = {}
        self._parsed: dict[str, Settings] = {}
        for folder in FOLDERS:
            if not os.path.islink(rooted(os.path.dirname(os.path.dirname(folder)))):
                self._list(folder)

    def _list(self, folder: str) -> None:
        try:
            found = sorted(os.scandir(rooted(folder)), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        made = folder.startswith(("/run/systemd/generator", "/run/systemd/transient"))
        foreign = folder not in OF_PACKAGES and not made
        for entry in found:
            name, path = entry.name, f"{folder}/{entry.name}"
            stem, suffix = os.path.splitext(name)
            if suffix in LINKS:
                for unit in _names(path):
                    self.links.setdefault(unit, []).append(name)
                    if foreign:
                        self.of_admin.add(unit)
            elif suffix == ".d":
                self.folders.setdefault(name, []).append(path)
                if foreign and "." in stem:
                    self.of_admin.add(stem)
            elif "." in name:
                first = name not in self.fragments
                self.fragments.setdefault(name, path)
                if foreign:
                    self.of_admin.add(name)
                if first and entry.is_symlink():
                    target = os.path.basename(os.readlink(rooted(path)))
                    if target not in ("null", name):
                        self.aliases[name] = target

    def real(self, unit: str) -> str:
        """Return the name that an alias stands for."""
        return self.aliases.get(unit, unit)

    def names(self, unit: str) -> list[str]:
        """Return the names under which a unit's files are found: itself, aliases, template."""
        if not self._called:
            for alias, real in sorted(self.aliases.items()):
                self._called.setdefault(real, []).append(alias)
        found = [unit, *self._called.get(unit, ())]
        prefix, at, rest = unit.partition("@")
        if at and not rest.startswith("."):
            found.append(f"{prefix}@.{unit.rpartition('.')[2]}")
        return found

    def fragment(self, unit: str) -> str:
        """Return the path of a unit's file; empty if there is none."""
        for name in self.names(unit):
            if name in self.fragments:
                return self.fragments[name]
        return ""

    def drop_ins(self, unit: str) -> list[str]:
        """Return the paths of a unit's drop-ins in the order in which they apply."""
        chosen: dict[str, str] = {}
        for name in (*self.names(unit), *_prefixes(unit)):
            for folder in self.folders.get(f"{name}.d", ()):
                for file in _names(folder):
                    if file.endswith(".conf"):
                        chosen.setdefault(file, f"{folder}/{file}")
        return [chosen[file] for file in sorted(chosen)]

    def sources(self, unit: str) -> list[str]:
        """Return the paths of all files that a unit is read from."""
        return [path for path in (self.fragment(unit), *self.drop_ins(unit)) if path]

    def settings(self, unit: str) -> Settings:
        """Return the settings of a unit's files together."""
        if unit not in self._parsed:
            self._parsed[unit] = settings_of(self.sources(unit))
        return self._parsed[unit]

    def masked(self, unit: str) -> bool:
        """Return whether a unit's file is a link to /dev/null, or empty."""
        path = self.fragment(unit)
        if not path:
            return False
        try:
            return os.path.islink(rooted(path)) and os.readlink(rooted(path)) == "/dev/null"
        except OSError:
            return False

    def wanted_by(self, unit: str) -> list[str]:
        """Return the folders of other units that link to a unit, each once."""
        return sorted({folder for name in self.names(unit)[:-1] or [unit]
                       for folder in self.links.get(name, ())}
                      | set(self.links.get(unit, ())))  # fmt: skip


@lru_cache(maxsize=1)
def files_of(commands: Commands) -> Files:
    """Return the unit files, listed once for each run."""
    return Files()


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(rooted(folder)))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _prefixes(unit: str) -> Iterator[str]:
    """Yield ``foo-bar-.service``, ``foo-.service`` and ``service`` for ``foo-bar-baz.service``."""
    stem, _, kind = unit.rpartition(".")
    while "-" in stem[:-1]:
        stem = stem.rstrip("-").rpartition("-")[0] + "-"
        if stem == "-":
            break
        yield f"{stem}.{kind}"
    yield kind


def settings_of(paths: Iterable[str]) -> Settings:
    """Return the settings of files that are read in turn (systemd.syntax(7))."""
    found: Settings = {}
    for path in paths:
        section = ""
        with suppress(Unread, OSError):
            for line in _joined(text_of(path)):
                if line.startswith("["):
                    section = line[1:].partition("]")[0]
                    continue
                name, sign, value = line.partition("=")
                if not sign:
                    continue
                values = found.setdefault(f"{section}.{name.strip()}", [])
                if value.strip():
                    values.append(value.strip())
                else:
                    values.clear()
    return found


def _joined(text: str) -> Iterator[str]:
    """Yield the lines without comments, continued lines joined."""
    begun = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith(("#", ";")) or (not line and not begun):
            continue
        if line.endswith("\\"):
            begun += line[:-1] + " "
            continue
        yield begun + line
        begun = ""
    if begun:
        yield begun


def last(settings: Settings, name: str, otherwise: str = "") -> str:
    """Return the last value of a setting."""
    values = settings.get(name)
    return values[-1] if values else otherwise


def truth(text: str) -> bool:
    """Return the meaning of a boolean (systemd.syntax(7))."""
    return text.lower() in ("1", "yes", "true", "on", "y", "t")


def words(settings: Settings, name: str) -> list[str]:
    """Return all words of a setting that is a list; quotes are removed."""
    found = []
    for value in settings.get(name, ()):
        try:
            found += shlex.split(value, posix=True)
        except ValueError:
            found += value.split()
    return found
