"""The running kernel beyond its arguments: settings, modules, taint."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.boot import version_key
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, each
from lockstep.node.readers.sysctl import sysctl_path
from lockstep.node.readers.tree import exists, found_by, is_folder, line_of, number_of, said


def read_kernel_files(request: Request, commands: Commands) -> Readings:
    """First line of every file that a pattern covers: pattern -> path -> line."""

    def read(pattern: str) -> Any:
        return each(found_by(pattern), line_of)

    return {"kernel.files": {pattern: read(pattern) for pattern in request["kernel_files"]}}


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
"""Keys that weigh on jobs and whose value does not depend on the machine's memory."""
KNOWN_MODULES = (
    "nouveau",
    *("mlx5_core", "mlx5_ib", "mlx4_core", "bnxt_en", "bnxt_re", "ice", "irdma", "ena", "efa"),
    *("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm", "knem", "xpmem"),
    *("lustre", "nvme", "ipmi_si", "edac_core", "skx_edac", "i10nm_edac", "amd64_edac"),
)
KERNEL_READINGS = (*("kernel.state", "sysctl.common", "kernel.modules", "kernel.newest"),)


def read_kernel_state(request: Request, commands: Commands) -> Readings:
    """Settings of the kernel that peers share, declared or not."""
    keys = list(COMMON_SYSCTLS)
    return {
        "kernel.state": each(list(STATE), said),
        "sysctl.common": each(keys, lambda key: common(f"/proc/sys/{sysctl_path(key)}")),
        "kernel.modules": each(list(KNOWN_MODULES), module_version),
        "kernel.newest": newest_kernel(os.uname().release),
    }


def read_tainted(request: Request, commands: Commands) -> Readings:
    """Bits of what happened to the kernel, and was loaded into it, since boot."""
    return {"kernel.tainted": number_of("/proc/sys/kernel/tainted")}


def newest_kernel(running: str) -> str:
    """Return the newest installed kernel of the running one's flavour."""
    names = [path[len("/boot/vmlinuz-") :] for path in found_by("/boot/vmlinuz-*")]
    alike = [name for name in names if flavour(name) == flavour(running)]
    return max([running, *alike], key=version_key)


def flavour(release: str) -> str:
    """Return what is no number of a release: ``+deb-cloud-amd`` of 6.12.48+deb13-cloud-amd64."""
    return re.sub(r"[\d.]+", "", release)


def common(path: str) -> str:
    """Return a value of /proc/sys in one spelling."""
    return " ".join(said(path).split())


def module_version(name: str) -> str:
    """Return the version of a loaded kernel module, or that it is loaded or absent."""
    folder = f"/sys/module/{name}"
    if not is_folder(folder):
        return ABSENT
    names = [file for file in ("version", "srcversion") if exists(f"{folder}/{file}")]
    return line_of(f"{folder}/{names[0]}") if names else "loaded"
