"""Settings of the kernel below /proc and /sys that are no sysctls."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from lockstep.node.fingerprint.disks import Disks, mount_rows, plain
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.sysfs import common, names_in, value_of
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import found_by, text_of

EXCEPTIONS_OF_KERNEL: tuple[Exempt, ...] = ()
CPU = "/sys/devices/system/cpu"
THP = "/sys/kernel/mm/transparent_hugepage"
PLAIN = (
    *("/proc/sys/kernel/tainted", "/proc/irq/default_smp_affinity", "/sys/power/mem_sleep"),
    *("/sys/kernel/security/lsm", "/sys/kernel/security/lockdown", "/sys/fs/selinux/enforce"),
    *("/sys/kernel/kexec_loaded", "/sys/kernel/kexec_crash_loaded"),
    *("/sys/kernel/kexec_crash_size", "/sys/kernel/kexec/loaded", "/sys/kernel/kexec/crash_size"),
    *("/sys/kernel/rcu_expedited", "/sys/kernel/rcu_normal", "/sys/kernel/profiling"),
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    *(f"{THP}/{name}" for name in ("enabled", "defrag", "shmem_enabled", "use_zero_page")),
    *("/sys/kernel/mm/numa/demotion_enabled", "/sys/kernel/mm/swap/vma_ra_enabled"),
    *("/sys/kernel/mm/lru_gen/enabled", "/sys/kernel/mm/lru_gen/min_ttl_ms"),
    "/sys/devices/system/memory/auto_online_blocks",
    *(f"{CPU}/{name}" for name in ("online", "offline", "isolated", "nohz_full")),
    *(f"{CPU}/smt/{name}" for name in ("control", "active")),
    *(f"{CPU}/cpuidle/{name}" for name in ("current_driver", "current_governor")),
    f"{CPU}/cpufreq/policy0/scaling_driver",
    *(f"{CPU}/intel_pstate/{name}" for name in ("status", "no_turbo", "min_perf_pct")),
    *(f"{CPU}/intel_pstate/{name}" for name in ("max_perf_pct", "hwp_dynamic_boost")),
    *(f"{CPU}/cpufreq/boost", f"{CPU}/amd_pstate/status", f"{CPU}/amd_pstate/prefcore"),
    *("/sys/firmware/acpi/platform_profile", "/sys/firmware/acpi/pm_profile"),
    *("/sys/fs/cgroup/cgroup.controllers", "/sys/class/tty/console/active"),
    *("/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched/preempt"),
    *("/sys/kernel/debug/sched/base_slice_ns", "/sys/kernel/debug/sched/migration_cost_ns"),
    *("/sys/kernel/debug/sched/nr_migrate", "/sys/kernel/debug/sched/tunable_scaling"),
    *("/sys/kernel/tracing/current_tracer", "/sys/kernel/tracing/tracing_on"),
    *("/sys/kernel/tracing/kprobe_events", "/sys/kernel/tracing/uprobe_events"),
)
"""Files with one value."""
GLOBS = (
    *(f"{THP}/hugepages-*/enabled", f"{THP}/hugepages-*/shmem_enabled"),
    *(f"{CPU}/vulnerabilities/*", "/sys/kernel/livepatch/*/enabled"),
    "/sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "/sys/kernel/mm/hugepages/*/nr_overcommit_hugepages",
    *("/sys/devices/virtual/workqueue/cpumask", "/sys/devices/virtual/workqueue/*/cpumask"),
    *("/sys/devices/virtual/workqueue/*/nice", "/sys/devices/virtual/workqueue/*/max_active"),
    *("/sys/devices/virtual/workqueue/*/affinity_scope", "/sys/kernel/reboot/*"),
    *("/sys/class/watchdog/*/timeout", "/sys/class/watchdog/*/nowayout"),
    *("/sys/class/watchdog/*/identity", "/sys/devices/system/edac/mc/mc*/sdram_scrub_rate"),
    *("/sys/bus/usb/devices/usb*/authorized_default", "/sys/class/rtc/*/hctosys"),
    f"{CPU}/intel_uncore_frequency/*/max_freq_khz",
    f"{CPU}/intel_uncore_frequency/*/min_freq_khz",
    "/sys/class/scsi_host/host*/link_power_management_policy",
    *(f"{THP}/khugepaged/{name}" for name in ("defrag", "pages_to_scan", "max_ptes_*", "*_m*secs")),
    *(f"/sys/kernel/mm/ksm/{name}" for name in ("run", "pages_to_scan", "sleep_millisecs")),
    *(f"/sys/kernel/mm/ksm/{name}" for name in ("merge_across_nodes", "max_page_sharing")),
)
"""Files with one value, of which a machine may have several."""
ALIKE = (
    (f"{CPU}/cpufreq", r"policy\d+", "scaling_governor"),
    (f"{CPU}/cpufreq", r"policy\d+", "scaling_min_freq"),
    (f"{CPU}/cpufreq", r"policy\d+", "scaling_max_freq"),
    (f"{CPU}/cpufreq", r"policy\d+", "energy_performance_preference"),
    ("/sys/kernel/iommu_groups", r"\d+", "type"),
)
"""Folders whose entries are alike, pattern of an entry, and file: one object with the common
value, because the entries' numbers mean nothing to an operator."""
OF_A_DISK = (
    *("scheduler", "read_ahead_kb", "nr_requests", "rotational", "nomerges", "rq_affinity"),
    *("max_sectors_kb", "wbt_lat_usec", "write_cache", "add_random", "io_poll", "iostats"),
    *("io_timeout", "fua", "zoned", "discard_max_bytes", "stable_writes"),
)
OF_AN_ARRAY = ("level", "raid_disks", "chunk_size", "metadata_version", "consistency_policy")


def read_kernel(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each setting; its name is the path, or says what it belongs to."""
    about = os.uname()
    yield Entry("release", {"release": about.release, "build": about.version})
    # GRUB numbers disks as the firmware finds them.
    arguments = re.sub(r"\(hd\d+,", "(hd,", text_of("/proc/cmdline", "").strip())
    yield Entry("command line", {"arguments": arguments})
    for path in PLAIN:
        yield from _one(path)
    for pattern in GLOBS:
        for path in found_by(pattern):
            yield from _one(path)
    for folder, pattern, file in ALIKE:
        names = [name for name in names_in(folder) if re.fullmatch(pattern, name)]
        value = common(value_of(f"{folder}/{name}/{file}") for name in names)
        if value is not None:
            yield Entry(f"{folder}/*/{file}", {"value": value})
    yield from _idle_states()
    yield from _disks()
    yield from _powered()
    yield from _switched()
    yield from _profiles()
    yield from _formats()
    yield from _attached()


def _one(path: str) -> Iterator[Entry]:
    value = value_of(path)
    if value is not None:
        yield Entry(path, {"value": value})


def _idle_states() -> Iterator[Entry]:
    """Yield one object for each idle state: on how many CPUs it is disabled (cpuidle, sysfs)."""
    cpus = [cpu for cpu in names_in(CPU) if re.fullmatch(r"cpu\d+", cpu)]
    # All CPUs have the states of the first: listing each folder would double the cost.
    states = names_in(f"{CPU}/cpu0/cpuidle")
    found: dict[str, list[str]] = {}
    for state in states:
        name = value_of(f"{CPU}/cpu0/cpuidle/{state}/name") or state
        disabled = (value_of(f"{CPU}/{cpu}/cpuidle/{state}/disable") for cpu in cpus)
        found[name] = [value for value in disabled if value is not None]
    for name, values in sorted(found.items()):
        yield Entry(f"idle state {name}", {"disabled": common(values) or "0"})


def _disks() -> Iterator[Entry]:
    """Yield one object for each disk; those without mount are told by model, and counted."""
    disks = Disks()
    spare: dict[str, list[Fields]] = {}
    for name in names_in("/sys/block"):
        if re.match(r"(?:loop|ram|zram|fd|sr|nbd)\d", name):
            continue
        folder = f"/sys/block/{name}"
        fields = {file: value_of(f"{folder}/queue/{file}") for file in OF_A_DISK}
        fields["read_only"] = value_of(f"{folder}/ro")
        for file in ("timeout", "eh_timeout", "queue_depth"):  # SCSI disks only
            fields[file] = value_of(f"{folder}/device/{file}")
        for file in OF_AN_ARRAY:  # Documentation/admin-guide/md.rst
            fields[file] = value_of(f"{folder}/md/{file}")
        known = {key: value for key, value in fields.items() if value is not None}
        role = disks.role(f"/dev/{name}")
        if role != f"/dev/{name}":
            yield Entry(role, known)
        else:
            model = value_of(f"{folder}/device/model") or name.rstrip("0123456789")
            spare.setdefault(model, []).append(known)
    for model, every in spare.items():
        files = sorted({file for one in every for file in one})
        fields = {file: common(one.get(file) for one in every) for file in files}
        shown = {file: value for file, value in fields.items() if value is not None}
        yield Entry(f"disks without mount, {model}", {"number": str(len(every)), **shown})


def _powered() -> Iterator[Entry]:
    """Yield one object for each kind of power limit (Documentation/power/powercap)."""
    for folder in found_by("/sys/class/powercap/*:*"):
        name = value_of(f"{folder}/name")
        fields: Fields = {}
        for path in found_by(f"{folder}/constraint_*_power_limit_uw"):
            number = path.rpartition("/")[2].split("_")[1]
            kind = value_of(f"{folder}/constraint_{number}_name") or number
            fields[kind] = f"{value_of(path)} uW"
        if fields:
            yield Entry(f"power limit {os.path.basename(folder)} {name}", fields)


def _switched() -> Iterator[Entry]:
    """Yield the USB devices that are not authorized, and the radio switches."""
    found: dict[str, list[str]] = {}
    for path in found_by("/sys/bus/usb/devices/*/authorized"):
        folder = os.path.dirname(path)
        kind = f"{value_of(f'{folder}/idVendor')}:{value_of(f'{folder}/idProduct')}"
        if kind != "None:None":
            found.setdefault(kind, []).append(value_of(path) or "")
    for kind, values in sorted(found.items()):
        yield Entry(f"USB {kind}", {"authorized": common(values) or ""})
    for path in found_by("/sys/class/rfkill/*/soft"):
        folder = os.path.dirname(path)
        yield Entry(f"radio switch {value_of(f'{folder}/name')}", {"soft": value_of(path) or ""})


def _profiles() -> Iterator[Entry]:
    """Yield one object for each AppArmor profile: whether it is enforced (apparmor_status(8))."""
    for line in text_of("/sys/kernel/security/apparmor/profiles", "").splitlines():
        name, _, mode = line.rpartition(" (")
        yield Entry(f"AppArmor profile {name}", {"mode": mode.rstrip(")")})


def _formats() -> Iterator[Entry]:
    """Yield the formats of binfmt_misc; where it is not mounted yet, looking would mount it."""
    for before, after in mount_rows():
        if after[0] == "binfmt_misc":
            folder = plain(before[4])
            for name in names_in(folder):
                if name != "register":
                    yield Entry(
                        f"binary format {name}", {"value": value_of(f"{folder}/{name}") or ""}
                    )
            return


def _attached() -> Iterator[Entry]:
    """Yield the files behind loop devices, disks in memory, and BPF objects that are pinned."""
    for path in found_by("/sys/block/loop*/loop/backing_file"):
        file = value_of(path) or ""
        if not file.startswith("/var/lib/snapd/"):
            yield Entry(f"loop device of {file}", {"read_only": value_of(f"{path[:-18]}/ro") or ""})
    for folder in found_by("/sys/block/zram*"):
        size = value_of(f"{folder}/disksize")
        if size not in (None, "0"):
            kind = value_of(f"{folder}/comp_algorithm") or ""
            yield Entry(os.path.basename(folder), {"size": size or "", "algorithm": kind})
    for name in names_in("/sys/fs/bpf"):
        if not name.endswith(".debug"):  # the kernel's own
            yield Entry(f"BPF object {name}", {"state": "pinned"})


KERNEL: tuple[Domain, ...] = (Domain("kernel", read_kernel, 4),)
