"""Kernel settings other than kernel arguments: sysctls, files, modules, taint."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, each
from lockstep.node.readers.tree import (
    exists,
    found_by,
    is_folder,
    line_of,
    number_of,
    said,
    text_of,
)


def read_kernel_files(request: Request, commands: Commands) -> Readings:
    """First line of every file that matches a requested pattern: pattern -> path -> line."""
    patterns = request["kernel_files"]
    return {"kernel.files": {pattern: each(found_by(pattern), line_of) for pattern in patterns}}


STATE = (
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/sys/kernel/mm/ksm/run",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/module/pcie_aspm/parameters/policy",
    "/sys/kernel/security/lsm",
    "/sys/kernel/security/lockdown",
)
COMMON_SYSCTLS = (
    *("kernel.numa_balancing", "kernel.sched_rt_runtime_us", "kernel.sched_autogroup_enabled"),
    *("kernel.nmi_watchdog", "kernel.watchdog_thresh", "kernel.timer_migration", "kernel.panic"),
    *("kernel.perf_event_paranoid", "kernel.randomize_va_space", "kernel.io_uring_disabled"),
    *("kernel.unprivileged_bpf_disabled", "kernel.hung_task_timeout_secs", "kernel.sysrq"),
    *("vm.swappiness", "vm.zone_reclaim_mode", "vm.overcommit_memory", "vm.overcommit_ratio"),
    *("vm.dirty_ratio", "vm.dirty_background_ratio", "vm.max_map_count", "vm.panic_on_oom"),
    *("vm.compaction_proactiveness", "vm.vfs_cache_pressure", "vm.stat_interval"),
    *("vm.nr_overcommit_hugepages", "vm.hugetlb_shm_group", "fs.nr_open", "fs.aio-max-nr"),
    *("net.core.rmem_max", "net.core.wmem_max", "net.core.rmem_default", "net.core.wmem_default"),
    *("net.core.netdev_max_backlog", "net.core.netdev_budget", "net.core.netdev_budget_usecs"),
    *("net.core.somaxconn", "net.core.default_qdisc", "net.core.busy_poll", "net.core.busy_read"),
    *("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_congestion_control"),
    *("net.ipv4.tcp_mtu_probing", "net.ipv4.tcp_timestamps", "net.ipv4.tcp_sack"),
    *("net.ipv4.tcp_ecn", "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.ip_forward"),
    *("net.ipv4.ip_local_port_range", "net.ipv4.tcp_tw_reuse"),
    *("net.ipv4.conf.all.rp_filter", "net.ipv4.conf.all.arp_ignore"),
    *("net.ipv4.conf.all.arp_announce", "net.ipv4.conf.all.arp_filter"),
    *("net.ipv6.conf.all.forwarding", "net.ipv6.conf.all.disable_ipv6"),
)
"""Sysctls that affect jobs and whose values do not depend on the memory size."""
KNOWN_MODULES = (
    "nouveau",
    *("mlx5_core", "mlx5_ib", "mlx4_core", "bnxt_en", "bnxt_re", "ice", "irdma", "ena", "efa"),
    *("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm", "knem", "xpmem"),
    *("lustre", "nvme", "ipmi_si", "edac_core", "skx_edac", "i10nm_edac", "amd64_edac"),
)
KERNEL_READINGS = ("kernel.state", "sysctl.common", "kernel.modules", "kernel.newest")


def read_kernel_state(request: Request, commands: Commands) -> Readings:
    """Kernel settings to compare between peers, even if the cluster description omits them."""
    return {
        "kernel.state": each(STATE, said),
        "sysctl.common": each(COMMON_SYSCTLS, lambda key: sysctl_value(key, ABSENT)),
        "kernel.modules": each(KNOWN_MODULES, module_version),
        "kernel.newest": newest_kernel(os.uname().release),
    }


def read_tainted(request: Request, commands: Commands) -> Readings:
    """Taint bits that kernel faults and certain modules have set since boot."""
    return {"kernel.tainted": number_of("/proc/sys/kernel/tainted")}


def newest_kernel(running: str) -> str:
    """Return the newest installed kernel of the same flavour as the running kernel."""
    names = [path[len("/boot/vmlinuz-") :] for path in found_by("/boot/vmlinuz-*")]
    alike = [name for name in names if flavour(name) == flavour(running)]
    return max([running, *alike], key=version_key)


def flavour(release: str) -> str:
    """Return a release without its numbers: ``6.12.48+deb13-cloud-amd64`` -> ``+deb-cloud-amd``."""
    return re.sub(r"[\d.]+", "", release)


def version_key(name: str) -> list[Any]:
    """Return a sort key that orders names as rpm orders versions: numbers compare by value."""
    # "~" sorts before the end of the name, numbers after words.
    parts = re.findall(r"\d+|[A-Za-z]+|~", name)
    return [
        (-1, 0, "") if part == "~" else (2, int(part), "") if part.isdigit() else (1, 0, part)
        for part in parts
    ] + [(0, 0, "")]


def module_version(name: str) -> str:
    """Return a module's version; "loaded" if it has none, "absent" if it is not loaded."""
    folder = f"/sys/module/{name}"
    if not is_folder(folder):
        return ABSENT
    names = [file for file in ("version", "srcversion") if exists(f"{folder}/{file}")]
    return line_of(f"{folder}/{names[0]}") if names else "loaded"


SYSCTL_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")


def sysctl_path(key: str) -> str:
    """Return the path below /proc/sys for a key with dots or with slashes (sysctl.d(5))."""
    first = re.search(r"[./]", key)
    if first and first.group() == ".":
        return key.translate(str.maketrans("./", "/."))
    return key


def sysctl_value(key: str, otherwise: str | None = None) -> str:
    """Return the running value of a sysctl, with its words separated by single spaces.

    If the sysctl does not exist, return ``otherwise``; if that is None, raise ``Unread``.
    """
    return " ".join(text_of("/proc/sys/" + sysctl_path(key), otherwise).split())


def read_sysctl_running(request: Request, commands: Commands) -> Readings:
    """Running values of the requested sysctls, from /proc/sys."""
    return {"sysctl.running": each(request["sysctls"], sysctl_value)}


def read_sysctl_persisted(request: Request, commands: Commands) -> Readings:
    """Values that systemd-sysctl sets at boot, each with the file that contains it."""
    files: dict[str, str] = {}
    for folder in SYSCTL_FOLDERS:  # a file overrides same-named files in later folders
        for path in found_by(folder + "/*.conf"):
            files.setdefault(os.path.basename(path), path)
    values: dict[str, dict[str, str]] = {}
    excluded: set[str] = set()
    for name in sorted(files):
        for line in text_of(files[name]).splitlines():
            key, assigned, value = line.strip().partition("=")
            if not key or key[0] in "#;":
                continue
            key = sysctl_path(key.strip().lstrip("-").strip())
            if not assigned:
                excluded.add(key)
                continue
            values.pop(key, None)  # the last pattern wins, so it moves to the end
            values[key] = {"value": " ".join(value.split()), "file": files[name]}

    def read(asked: str) -> Any:
        path = sysctl_path(asked)
        if path in values:
            return values[path]
        patterns = [one for one in values if path not in excluded and matches(path, one)]
        return values[patterns[-1]] if patterns else {"absent": True}

    return {"sysctl.persisted": {key: read(key) for key in request["sysctls"]}}


def matches(path: str, pattern: str) -> bool:
    """Return whether a pattern matches a path; "*" does not match a slash."""
    names, patterns = path.split("/"), pattern.split("/")
    return len(names) == len(patterns) and all(map(fnmatch.fnmatchcase, names, patterns))
