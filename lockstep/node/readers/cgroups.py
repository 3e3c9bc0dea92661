"""Control groups: which CPUs services may use, and how much they do."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpulist, cpus
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import exists, found_by, is_folder, line_of, rooted, text_of


def read_cpuset(request: Request, commands: Commands) -> Readings:
    """CPUs that the service manager and logins may use."""

    def allowed(where: str) -> Any:
        if "cpuset" not in text_of("/sys/fs/cgroup/cgroup.controllers").split():
            return Unread("no cpuset controller")
        if not is_folder(f"/sys/fs/cgroup/{where}"):
            return None  # nothing runs there
        path = f"/sys/fs/cgroup/{where}/cpuset.cpus.effective"
        if not exists(path):  # the slice has no set of its own: all CPUs
            path = "/sys/devices/system/cpu/online"
        return text_of(path).strip()

    try:
        logins = allowed("user.slice")
    except Unread as reason:  # no control groups: systemd has its CPUs all the same
        logins = reason
    match = re.search(r"^Cpus_allowed_list:\s*(\S+)", text_of("/proc/1/status"), re.MULTILINE)
    return {
        "cpuset.manager": match.group(1) if match else Unread("/proc/1/status: no CPU list"),
        "cpuset.user_slice": logins,
    }


CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
"""Where systemd keeps its units: cgroup v2, v2 beside v1, v1 alone."""


LOGINS = "/sys/fs/cgroup/user.slice"


def read_services(request: Request, commands: Commands) -> Readings:
    """CPUs that the processes of each service may use: all of them together, and list by list."""
    slices = [folder + "/system.slice" for folder in CGROUPS]
    top = next((folder for folder in slices if is_folder(folder)), None)
    if top is None:
        raise Unread("/sys/fs/cgroup: no system.slice")
    found: dict[str, set[int]] = {}
    groups: dict[str, set[str]] = {}
    for folder, _, files in os.walk(rooted(top)):
        # What is inside a service (a container with an init of its own) belongs to it.
        parts = folder[len(rooted(top)) :].split("/")
        if any(part.endswith(".scope") for part in parts):
            continue  # not a service: a container, whose services are its own
        unit = next((part for part in parts if part.endswith(".service")), None)
        if unit is None or "cgroup.procs" not in files:
            continue
        try:
            processes = text_of(f"{top}{'/'.join(parts)}/cgroup.procs").split()
        except Unread:
            continue  # a threaded group, whose processes its parent lists, or one that ended
        for process in processes:
            try:
                status = text_of(f"/proc/{process}/status")
            except Unread:
                continue  # ended meanwhile
            match = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
            if match:
                found.setdefault(unit, set()).update(cpus(match.group(1)))
                for path in within(top, parts):
                    groups.setdefault(path, set()).add(match.group(1))
    if not found:
        raise Unread(f"{top}: no service with a process")
    if exists(f"{LOGINS}/cpuset.cpus.effective"):
        groups[LOGINS] = {line_of(f"{LOGINS}/cpuset.cpus.effective")}
    return {
        "cpuset.services": {unit: cpulist(found[unit]) for unit in sorted(found)},
        "cpuset.groups": {path: sorted(groups[path]) for path in sorted(groups)},
    }


def within(top: str, parts: list[str]) -> list[str]:
    """Return the control groups of services that a folder lies in, one in the other."""
    return [
        top + "/".join(parts[: number + 1])
        for number, part in enumerate(parts)
        if part.endswith(".service")
    ]


LONG_ENOUGH_S = 600.0
"""A service needs more at its start: before this age its share says nothing."""


def read_service_shares(request: Request, commands: Commands) -> Readings:
    """Percent of one CPU that each service used on average; none without control groups v2."""
    shares: dict[str, float] = {}
    uptime = float(line_of("/proc/uptime").split()[0])
    for path in found_by("/sys/fs/cgroup/system.slice/*.service/cpu.stat"):
        try:
            usage = re.search(r"^usage_usec (\d+)", text_of(path), re.M)
            begun = [started(pid) for pid in text_of(path[:-8] + "cgroup.procs").split()]
        except Unread:
            continue  # ended meanwhile
        age = uptime - min(begun, default=uptime)
        if usage and age > LONG_ENOUGH_S:
            shares[path.split("/")[-2]] = round(int(usage.group(1)) / age / 1e4, 2)
    return {"services.cpu_share": shares}


def started(pid: str) -> float:
    """Return when a process began, in seconds since boot (proc_pid_stat(5), starttime)."""
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")
