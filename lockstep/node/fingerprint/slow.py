"""Domains that are read once a day: they cost too much for each check.

A node that Lockstep deploys keeps their objects, and reads them anew after a day (after an hour if
that failed), and when something changed that is cheap to look at. Other nodes read them only if a
check asks for them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lockstep.node.fingerprint.entry import Domain, Entry, Secret
from lockstep.node.fingerprint.login import LOGIN
from lockstep.node.fingerprint.packages import RPM_DATABASES
from lockstep.node.fingerprint.tree import FORMAT
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.kept import keep, kept, may_keep
from lockstep.node.readers.reading import FAILURES, Request, Unread, reason
from lockstep.node.readers.tree import found_by, rooted


def read_programs(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield what ``programs.read_programs`` does; the module is loaded when it is due."""
    from lockstep.node.fingerprint import programs

    yield from programs.read_programs(request, commands)


PROGRAM: tuple[Domain, ...] = (Domain("program", read_programs, buckets=16),)
SLOW: tuple[Domain, ...] = (*PROGRAM, *LOGIN)
NAMES = frozenset(domain.name for domain in SLOW)
HOUR_S, DAY_S = 3600, 24 * 3600
SAME_CHECK_S = 60
"""Seconds in which a further question is about what the first one read."""
RPM_FILES = ("rpmdb.sqlite", "Packages", "Packages.db")
"""Names of RPM's database: sqlite, bdb, ndb (macros of rpm, _db_backend)."""
WATCHED = {
    "program": (
        *("/var/lib/dpkg/status", "/var/lib/dpkg/info", "/var/lib/dpkg/diversions"),
        "/var/lib/dpkg/statoverride",
        # Files of transactions. A query changes others, such as rpmdb.sqlite-shm.
        *(f"{folder}/{name}" for folder in RPM_DATABASES for name in RPM_FILES),
        *("/usr", "/usr/*", "/usr/lib/*", "/usr/libexec/*", "/opt", "/opt/*"),
    ),
    "login": (
        *("/etc/profile", "/etc/profile.d", "/etc/profile.d/*", "/etc/bash.bashrc", "/etc/bashrc"),
        *("/etc/environment", "/etc/default/locale", "/etc/locale.conf", "/etc/login.defs"),
        *("/etc/pam.d", "/etc/pam.d/*", "/etc/security", "/etc/security/*", "/etc/passwd"),
        *("/root", "/root/.profile", "/root/.bash*", "/usr/bin/bash"),
    ),
}
"""Domain -> files and folders whose change makes the domain due. A folder changes when an entry
comes or goes, a file also when it is edited."""


class Slow:
    """The slow domains of this node."""

    def __init__(self, request: Request, now: float | None = None) -> None:
        """Load what is kept.

        Args:
            request: ``slow``: whether to read all anew; ``asked``: objects of these domains are
                read anew, too, so that a finding shows the present.
            now: Unix time; None: the clock.
        """
        self.now = time.time() if now is None else now
        self.again = bool(request["slow"])
        self.asked = {domain for domain, _ in request["asked"]}
        self.taken: dict[str, float] = {}
        """Domain -> Unix time at which it was read."""
        self._kept: dict[str, Any] = {}
        with suppress(ValueError):
            found = json.loads(kept(FILE) or b"{}")
            if found.get("format") == FORMAT:
                self._kept = found["domains"]

    def is_read(self, domain: Domain) -> bool:
        """Return whether this check compares a domain."""
        return may_keep() or self.again or domain.name in self.asked

    def read(self, domain: Domain, request: Request, commands: Commands) -> Iterator[Entry]:
        """Yield the objects of a domain, those that are kept or new ones.

        Raises:
            Unread: the domain could not be read, now or when it was due.
        """
        found, seen = self._kept.get(domain.name), signature(domain.name)
        if found is None or self._is_due(domain, found, seen):
            found = {"taken": self.now, "seen": seen, **_read(domain, request, commands)}
            self._kept[domain.name] = found
            data = {"format": FORMAT, "domains": self._kept}
            keep(FILE, json.dumps(data).encode())
        self.taken[domain.name] = found["taken"]
        if "unread" in found:
            raise Unread(found["unread"])
        for name, fields, secret in found["entries"]:
            yield Entry(name, {k: Secret(v) if k in secret else v for k, v in fields.items()})

    def _is_due(self, domain: Domain, found: dict[str, Any], seen: list[list[Any]]) -> bool:
        # A clock that was set back makes everything due.
        age = self.now - found["taken"]
        limit = HOUR_S if "unread" in found else DAY_S
        if domain.name in self.asked:
            limit = SAME_CHECK_S
        elif self.again:  # somebody has repaired what the last check found
            return True
        return not 0 <= age < limit or seen != found["seen"]


FILE = "slow.json"


def _read(domain: Domain, request: Request, commands: Commands) -> dict[str, Any]:
    try:
        entries = list(domain.read(request, commands))
    except FAILURES as failure:  # it would cost as much again in the next check
        return {"unread": reason(failure)}
    return {
        "entries": [
            (name, fields, [k for k, v in fields.items() if isinstance(v, Secret)])
            for name, fields in entries
        ]
    }


def signature(domain: str) -> list[list[Any]]:
    """Return the inode and ctime of each file that is watched for a domain.

    The ctime also changes if somebody sets the mtime back (inode(7)).
    """
    found: list[list[Any]] = []
    for pattern in WATCHED[domain]:
        for path in found_by(pattern) if "*" in pattern else (pattern,):
            with suppress(OSError):
                about = os.lstat(rooted(path))
                found.append([path, about.st_ino, about.st_ctime_ns])
    return found
