"""Control groups: the CPUs that services may use, and the CPU time that they use."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpulist, cpus
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import (
    exists,
    figure_of,
    found_by,
    found_in,
    is_folder,
    line_of,
    rooted,
    started,
    text_of,
)

LOGINS = "/sys/fs/cgroup/user.slice"


def read_manager_cpus(request: Request, commands: Commands) -> Readings:
    """CPUs that systemd (process 1) may use."""
    return {"cpuset.manager": allowed_cpus("1")}


def read_login_cpus(request: Request, commands: Commands) -> Readings:
    """CPUs that login sessions may use; None if there is no session."""
    if "cpuset" not in text_of("/sys/fs/cgroup/cgroup.controllers").split():
        raise Unread("/sys/fs/cgroup/cgroup.controllers lists no cpuset controller")
    path = f"{LOGINS}/cpuset.cpus.effective"
    if not exists(path):  # the slice has no CPU set of its own and may use all CPUs
        path = "/sys/devices/system/cpu/online"
    return {"cpuset.user_slice": line_of(path) if is_folder(LOGINS) else None}


def allowed_cpus(process: str) -> str:
    """Return the CPUs that a process may use."""
    return found_in(f"/proc/{process}/status", r"^Cpus_allowed_list:\s*(\S+)", "Cpus_allowed_list")


CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
"""Folders with systemd's slices, for cgroup v2, for v1 and v2 together, and for v1 alone."""


def read_services(request: Request, commands: Commands) -> Readings:
    """CPUs that each service may use, and the CPU lists of the processes in each control group."""
    slices = [folder + "/system.slice" for folder in CGROUPS]
    top = next((folder for folder in slices if is_folder(folder)), None)
    if top is None:
        raise Unread("there is no system.slice below /sys/fs/cgroup")
    found: dict[str, set[int]] = {}
    groups: dict[str, set[str]] = {}
    for folder, _, files in os.walk(rooted(top)):
        path = top + folder[len(rooted(top)) :]
        # The outermost service comes first: services that a container's init runs are part of it.
        services = [path[: end.start()] for end in re.finditer(r"(?<=\.service)(/|$)", path)]
        # A scope holds a container, whose services are not the node's.
        if not services or ".scope/" in path + "/" or "cgroup.procs" not in files:
            continue
        # In a threaded group, cgroup.procs cannot be read; its parent's file lists the processes.
        # Other groups may have been removed in the meantime.
        with suppress(Unread):
            for process in text_of(f"{path}/cgroup.procs").split():
                with suppress(Unread):
                    allowed = allowed_cpus(process)
                    found.setdefault(os.path.basename(services[0]), set()).update(cpus(allowed))
                    for group in services:
                        groups.setdefault(group, set()).add(allowed)
    if not found:
        raise Unread(f"no service in {top} has any processes")
    if exists(f"{LOGINS}/cpuset.cpus.effective"):
        groups[LOGINS] = {line_of(f"{LOGINS}/cpuset.cpus.effective")}
    return {
        "cpuset.services": {unit: cpulist(found[unit]) for unit in sorted(found)},
        "cpuset.groups": {path: sorted(groups[path]) for path in sorted(groups)},
    }


LONG_ENOUGH_S = 600.0
"""Minimum age of services. Younger ones are left out, because startup raises their CPU use."""


def read_service_shares(request: Request, commands: Commands) -> Readings:
    """Average CPU use of each service, as a percentage of one CPU; empty without cgroup v2."""
    shares: dict[str, float] = {}
    uptime, ticks_per_s = figure_of("/proc/uptime"), os.sysconf("SC_CLK_TCK")
    for path in found_by("/sys/fs/cgroup/system.slice/*.service/cpu.stat"):
        with suppress(Unread):  # the service has ended in the meantime
            usage = found_in(path, r"^usage_usec (\d+)", "usage")
            processes = text_of(path[: -len("cpu.stat")] + "cgroup.procs").split()
            begun = [started(process) / ticks_per_s for process in processes]
            age = uptime - min(begun, default=uptime)
            if age > LONG_ENOUGH_S:
                shares[path.split("/")[-2]] = round(int(usage) / age / 1e4, 2)
    return {"services.cpu_share": shares}
