"""The operating system and its names: release, time zone, locale, hosts, identity."""

from __future__ import annotations

import grp
import hashlib
import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, one
from lockstep.node.readers.tree import assignments, exists, found_by, line_of, rooted, said, text_of


def read_release(request: Request, commands: Commands) -> Readings:
    """/etc/os-release."""
    values = assignments(text_of("/etc/os-release"))
    return {
        name: values.get(key, Unread(f"/etc/os-release: no {key}"))
        for name, key in (("os.id", "ID"), ("os.version_id", "VERSION_ID"))
    }


def read_running(request: Request, commands: Commands) -> Readings:
    """What the kernel says of itself, and how it was started."""
    running = os.uname()
    return {
        "os.hostname": running.nodename,
        "os.boot_id": text_of("/proc/sys/kernel/random/boot_id").strip(),
        "kernel.release": running.release,
        "kernel.cmdline": text_of("/proc/cmdline").split(),
    }


def read_time_zone(request: Request, commands: Commands) -> Readings:
    """The zone that /etc/localtime points to."""
    try:
        target = os.readlink(rooted("/etc/localtime"))
    except FileNotFoundError:
        raise Unread("/etc/localtime: no such file") from None
    except OSError:
        raise Unread("/etc/localtime: not a link, so its zone has no name") from None
    if "zoneinfo/" not in target:
        raise Unread(f"/etc/localtime: points to {target}, not to a zone")
    return {"os.time_zone": target.split("zoneinfo/", 1)[1]}


def read_locale(request: Request, commands: Commands) -> Readings:
    """LANG of locale.conf(5) or Debian's older file; "" when it is not set anywhere."""
    if exists("/etc/locale.conf"):
        return {"os.locale": assignments(text_of("/etc/locale.conf")).get("LANG", "")}
    if not exists("/etc/default/locale"):
        return {"os.locale": ""}
    return {"os.locale": assignments(text_of("/etc/default/locale")).get("LANG", "")}


def read_locales(request: Request, commands: Commands) -> Readings:
    """Locales that programs can use, in one spelling: ``en_us.utf8``."""
    listed = commands.run("locale", "-a").splitlines()
    return {"os.locales": sorted({line.strip().lower().replace("-", "") for line in listed})}


def read_hosts(request: Request, commands: Commands) -> Readings:
    """/etc/hosts: name -> addresses."""
    entries: dict[str, set[str]] = {}
    for line in text_of("/etc/hosts").splitlines():
        words = line.split("#", 1)[0].split()
        for name in words[1:]:
            entries.setdefault(name, set()).add(words[0])
    return {"hosts.entries": {name: sorted(found) for name, found in entries.items()}}


def read_identity(request: Request, commands: Commands) -> Readings:
    """What only this node may have: machine id and ssh host keys, these as hashes."""
    keys = found_by("/etc/ssh/ssh_host_*_key.pub")

    def key(path: str) -> str:
        return hashlib.sha256(line_of(path).split()[1].encode()).hexdigest()

    return {
        "os.machine_id": said("/etc/machine-id"),
        "os.host_keys": {os.path.basename(path)[9:-8]: one(key, path) for path in keys},
    }


def read_groups(request: Request, commands: Commands) -> Readings:
    """Names of the groups with some numbers; "absent" for a number that no group has."""

    def name(number: str) -> str:
        try:
            return grp.getgrgid(int(number)).gr_name
        except KeyError:
            return ABSENT

    return {"os.groups": {number: name(number) for number in request["groups"]}}


RESOLVED = "/run/systemd/resolve/resolv.conf"
"""The servers behind systemd-resolved, whose own address is all that resolv.conf has."""


def read_resolver(request: Request, commands: Commands) -> Readings:
    """Where names are looked up, and in which order."""
    text = text_of("/etc/resolv.conf") if exists("/etc/resolv.conf") else ""
    if "nameserver 127.0.0.53" in text and exists(RESOLVED):
        text = text_of(RESOLVED)
    rows = [line.split() for line in text.splitlines() if line[:1].isalpha()]
    found = {
        key: " ".join(word for row in rows if row[0] == key for word in row[1:])
        for key in ("nameserver", "search", "options")
    }
    path = "/etc/nsswitch.conf"
    switch = text_of(path) if exists(path) else ""
    order = re.search(r"^hosts:\s*(.*)$", switch, re.M)
    return {"os.resolver": {**found, "hosts": " ".join(order.group(1).split()) if order else ""}}
