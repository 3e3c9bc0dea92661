"""The operating system: release, boot, platform, time zone, locale, host names, identity."""

from __future__ import annotations

import hashlib
import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, each, one
from lockstep.node.readers.tree import (
    assignments,
    exists,
    found_by,
    line_of,
    rooted,
    said,
    started,
    text_of,
)


def read_release(request: Request, commands: Commands) -> Readings:
    """The operating system and its release, from /etc/os-release."""
    values = assignments(text_of("/etc/os-release"))
    return {
        name: values.get(key, Unread(f"/etc/os-release does not set {key}"))
        for name, key in (("os.id", "ID"), ("os.version_id", "VERSION_ID"))
    }


def read_running(request: Request, commands: Commands) -> Readings:
    """Host name, boot ID, and the running kernel's release, page size and arguments."""
    running = os.uname()
    return {
        "os.hostname": running.nodename,
        "os.boot_id": text_of("/proc/sys/kernel/random/boot_id").strip(),
        "kernel.release": running.release,
        # Built into the kernel; as `getconf PAGESIZE` prints it, in KiB.
        "kernel.page_size": f"{os.sysconf('SC_PAGE_SIZE') // 1024}k",
        "kernel.cmdline": text_of("/proc/cmdline").split(),
    }


REBOOT_REQUIRED = "/run/reboot-required"
"""Debian and Ubuntu packages that need a reboot write this file; a reboot removes it."""
IN_VAIN = "/run/lockstep/rebooted-in-vain"
"""File with the problems that the last reboot did not resolve; the next reboot removes the file."""


def read_boot(request: Request, commands: Commands) -> Readings:
    """When PID 1 started, packages that need a reboot, and problems that a reboot did not resolve.

    A container has its host's boot ID, so only the start of PID 1 (proc_pid_stat(5), starttime)
    tells the container's boots apart.
    """
    wanted = set(text_of(f"{REBOOT_REQUIRED}.pkgs", "").splitlines())
    return {
        "os.init_started": started("1"),
        "os.reboot_required": sorted(wanted) if exists(REBOOT_REQUIRED) else ABSENT,
        "os.rebooted_in_vain": text_of(IN_VAIN, "").splitlines(),
    }


DMI = ("sys_vendor", "product_name", "board_name", "bios_vendor", "bios_version", "bios_date")

BMC = "/sys/devices/platform/ipmi_bmc.*/firmware_revision"


def read_platform(request: Request, commands: Commands) -> Readings:
    """Vendor, model, board and firmware of the machine."""
    return {"platform": each(DMI, lambda name: said(f"/sys/class/dmi/id/{name}"))}


def read_bmc(request: Request, commands: Commands) -> Readings:
    """Firmware of the BMC, which may be slow to answer.

    The kernel's IPMI driver asks the BMC without credentials; "absent" if it has found none.
    """
    found = [said(path) for path in found_by(BMC)]
    return {"platform.bmc_firmware": ", ".join(found) or ABSENT}


def read_time_zone(request: Request, commands: Commands) -> Readings:
    """The time zone that /etc/localtime points to."""
    try:
        target = os.readlink(rooted("/etc/localtime"))
    except FileNotFoundError:
        raise Unread("/etc/localtime: no such file") from None
    except OSError:
        raise Unread("/etc/localtime is not a symbolic link to a time zone") from None
    if "zoneinfo/" not in target:
        raise Unread(f"/etc/localtime points to {target}, not to a time zone below zoneinfo/")
    return {"os.time_zone": target.split("zoneinfo/", 1)[1]}


def read_locale(request: Request, commands: Commands) -> Readings:
    """LANG from locale.conf(5) or, without that file, /etc/default/locale; "" if not set."""
    text = text_of("/etc/locale.conf", otherwise=text_of("/etc/default/locale", otherwise=""))
    return {"os.locale": assignments(text).get("LANG", "")}


def read_locales(request: Request, commands: Commands) -> Readings:
    """Installed locales, in lower case and without hyphens: ``en_US.UTF-8`` -> ``en_us.utf8``."""
    listed = commands.run("locale", "-a").splitlines()
    return {"os.locales": sorted({line.strip().lower().replace("-", "") for line in listed})}


def read_hosts(request: Request, commands: Commands) -> Readings:
    """Addresses of each name in /etc/hosts."""
    entries: dict[str, set[str]] = {}
    for line in text_of("/etc/hosts").splitlines():
        words = line.split("#", 1)[0].split()
        for name in words[1:]:
            entries.setdefault(name, set()).add(words[0])
    return {"hosts.entries": {name: sorted(found) for name, found in entries.items()}}


def read_identity(request: Request, commands: Commands) -> Readings:
    """Values that must differ between nodes: the machine ID, and hashes of the SSH host keys."""
    keys = found_by("/etc/ssh/ssh_host_*_key.pub")

    def key(path: str) -> str:
        return hashlib.sha256(line_of(path).split()[1].encode()).hexdigest()

    return {
        "os.machine_id": said("/etc/machine-id"),
        "os.host_keys": {os.path.basename(path)[9:-8]: one(key, path) for path in keys},
    }


RESOLVED = "/run/systemd/resolve/resolv.conf"
"""File with systemd-resolved's DNS servers; /etc/resolv.conf lists only the local stub resolver."""


def read_resolver(request: Request, commands: Commands) -> Readings:
    """DNS servers, search domains, resolver options, and the order of host lookups (nsswitch)."""
    text = text_of("/etc/resolv.conf", "")
    if "nameserver 127.0.0.53" in text and exists(RESOLVED):
        text = text_of(RESOLVED)
    rows = [line.split() for line in text.splitlines() if line[:1].isalpha()]
    found = {
        key: " ".join(word for row in rows if row[0] == key for word in row[1:])
        for key in ("nameserver", "search", "options")
    }
    order = re.search(r"^hosts:\s*(.*)$", text_of("/etc/nsswitch.conf", ""), re.M)
    return {"os.resolver": {**found, "hosts": " ".join(order.group(1).split()) if order else ""}}
