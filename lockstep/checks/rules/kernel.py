"""Rules about kernel settings, modules, logs and sysctls."""

from __future__ import annotations

from collections import Counter
from functools import partial

from pydantic import JsonValue

from lockstep.checks.compare import number
from lockstep.checks.context import Items, View
from lockstep.checks.looks import made, of_map, part, where
from lockstep.checks.peer_settings import OTHER_KERNEL, OTHER_MACHINE
from lockstep.checks.rule import (
    SAME_DEVICE,
    WARNING,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    by_hand,
    by_role,
    each,
    same,
)
from lockstep.checks.rules._gpu import has_gpus
from lockstep.checks.rules.boot import own_kernel
from lockstep.plan.running import GOVERNOR, NEW_INTERRUPTS, THP, UNBOUND_WORK, KernelFile
from lockstep.probe.record import Unread, item
from lockstep.report import fold

FAULTS = {4: "machine check", 5: "bad page", 7: "oops", 14: "soft lockup"}


NAMES = (
    *("bnxt_en", "ice", "ena", "knem", "xpmem", "lustre", "nvme", "ipmi_si"),
    *("edac_core", "skx_edac", "i10nm_edac", "amd64_edac"),
)

NOT_THERE = "no such file: this kernel or machine does not have the setting"
AT_BOOT = {
    # File -> settings that it sets at boot.
    "/etc/tmpfiles.d/50-lockstep-cpus.conf": (UNBOUND_WORK, NEW_INTERRUPTS),
    "/etc/tmpfiles.d/50-lockstep-kernel.conf": (f"{THP}/enabled", f"{THP}/defrag", GOVERNOR),
}


def _files(view: View) -> dict[str, KernelFile]:
    hardware = view.plan.hardware
    return {file.path: file for file in (*hardware.cpu_files, *hardware.kernel_files)}


def _values(view: View, file: KernelFile) -> dict[str, str | Unread] | Unread | None:
    """Return the value of each file that matches a pattern; None if the files were not read."""
    found = view.record.entry("kernel.files", file.path)
    if found is None or isinstance(found, Unread):
        return found
    if not isinstance(found, dict):
        return Unread(unread=f"the value is not a map: {found!r:.60}")
    return {
        path: value if isinstance(value := item(shown), Unread) else file.read(str(value))
        for path, shown in found.items()
    }


def _settings(view: View, read: Items) -> Items:
    seen = {file: _values(view, file) for file in _files(view).values()}
    return {
        file.path: values if isinstance(values, Unread) else _folded(file, values)
        for file, values in seen.items()
        if values is not None
    }


def _folded(file: KernelFile, values: dict[str, str | Unread]) -> JsonValue | Unread:
    """Return the planned value if all matching files have it, otherwise the values that differ."""
    if not values:
        return NOT_THERE
    wrong = Counter(v for v in values.values() if not isinstance(v, Unread) and v != file.value)
    if not wrong:
        return next((value for value in values.values() if isinstance(value, Unread)), file.value)
    if len(wrong) == 1 and wrong.total() == len(values):
        return next(iter(wrong))
    return ", ".join(
        f"{value} on {count} of {len(values)}" for value, count in sorted(wrong.items())
    )


def _which(view: View, path: str) -> str:
    """Name the files with a wrong value by the part of their path that the asterisk matches."""
    file = _files(view)[path]
    values = _values(view, file)
    if "*" not in path or not isinstance(values, dict):
        return ""
    part = next(number for number, text in enumerate(path.split("/")) if "*" in text)
    wrong = [
        name.split("/")[part]
        for name, value in values.items()
        if not isinstance(value, Unread) and value != file.value
    ]
    return fold(wrong) if wrong and len(wrong) < len(values) else ""


KINDS = {
    1: "force-loaded module",
    2: "CPU out of specification",
    3: "force-unloaded module",
    8: "ACPI table overridden",
    10: "staging driver",
    11: "firmware workaround",
    15: "live patch",
}


def declared(view: View) -> dict[str, str]:
    """Return the sysctls that Lockstep sets, with whitespace as the kernel prints it."""
    sysctl = view.plan.system.sysctl if view.plan.manages("os_settings") else {}
    return {key: " ".join(value.split()) for key, value in sysctl.items()}


def _persisted_items(view: View) -> Items:
    found = view.items("sysctl.persisted")
    owned = view.context.files_of(view.plan)
    items: Items = {}
    for key, entry in found.items():
        other = isinstance(entry, dict) and "absent" not in entry and entry["file"] not in owned
        # file.content checks Lockstep's own files.
        items[key] = entry if other or isinstance(entry, Unread) else declared(view).get(key)
    return items


def _winner(view: View, key: str) -> str:
    entry = view.items("sysctl.persisted").get(key)
    return f"set by {entry['file']}" if isinstance(entry, dict) else ""


_alike = partial(Rule, peers=Peers.CLASS, severity=WARNING)
"""A rule that compares a setting across peers."""

RULES = (
    _alike(
        id="kernel.aspm",
        claim="All nodes of a hardware class have the same PCIe power saving policy (ASPM).",
        why="A link in a low-power state takes microseconds to wake up, and transfers wait for it.",
        blind="Firmware settings for individual links.",
        source="kernel documentation, admin-guide/kernel-parameters (pcie_aspm)",
        reading="kernel.state",
        look=Look(part("kernel.state", "/sys/module/pcie_aspm/parameters/policy")),
        repair=by_hand(
            "on {node}: compare the kernel argument pcie_aspm= with that of its peers, and find "
            "out what wrote to {device}"
        ),
        explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="kernel.clocksource",
        claim="All nodes of a hardware class use the same clock source.",
        why=(
            "A kernel that no longer trusts the TSC falls back to a timer that is a hundred times "
            "slower. Each clock read then takes a microsecond."
        ),
        blind="A slow clock source on all nodes.",
        source="kernel documentation, timers/timekeeping",
        reading="kernel.state",
        look=Look(
            part(
                "kernel.state",
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            )
        ),
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: read journalctl -k -g tsc; compare the BIOS settings and the kernel "
            "argument tsc= with those of its peers; then reboot the node"
        ),
        explained_by=OTHER_KERNEL,
    ),
    Rule(
        id="kernel.faulted",
        claim="The kernel has had no serious fault since boot.",
        why=(
            "After an oops or a machine check, the kernel keeps running but is no longer reliable."
        ),
        blind="Warnings (bit 9), which drivers also print for harmless events.",
        source="kernel documentation, admin-guide/tainted-kernels",
        reading="kernel.tainted",
        look=Look(
            pick=lambda value: [
                name for bit, name in FAULTS.items() if int(number(value)) >> bit & 1
            ]
        ),
        expected=same([]),
        repair=by_hand(
            "drain {node}, save the kernel log of this boot (journalctl -k), then reboot the node"
        ),
        applies=own_kernel,
    ),
    Rule(
        id="kernel.log",
        claim="The kernel log shows no fault.",
        why="Hung tasks, lockups, and disk and link errors often appear hours before a failure.",
        blind=(
            "Messages that the ring buffer no longer holds. Faults whose messages the rule does "
            "not recognize."
        ),
        source=(
            "kernel sources: hung_task.c, watchdog.c, rcu/tree_stall.h, pcie/aer.c, sch_generic.c"
        ),
        reading="kernel.log",
        expected=same(0),
        text=Text(words=lambda found, expected: (f"messages: {found}", "none")),
        severity=WARNING,
        repair=by_hand(
            "on {node}: dmesg -T shows the messages; the finding remains until the next boot"
        ),
        applies=own_kernel,
    ),
    _alike(
        kind=Kind.SLOTS,
        id="kernel.modules",
        claim="All nodes of a hardware class load the same kernel modules in the same versions.",
        why=(
            "Without the driver for its memory controllers, a node reports no memory errors. A "
            "driver from a different source can behave differently."
        ),
        blind=(
            "Modules outside a fixed list of network, storage, IPMI and memory controller drivers. "
            "RDMA and GPU modules, which have their own rules."
        ),
        source="kernel documentation, ABI/testing/sysfs-module",
        reading="kernel.modules",
        look=Look(part("kernel.modules", *NAMES)),
        repair=by_hand(
            "on {node}: run modprobe {device}, or find out what loaded the module "
            "(/etc/modules-load.d)"
        ),
        explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="kernel.nouveau",
        claim="The nouveau driver is not loaded.",
        why="nouveau binds to the GPUs at boot, so NVIDIA's driver cannot use them.",
        blind="Other drivers that bind to a GPU, such as vfio-pci.",
        source="NVIDIA driver installation guide, disabling nouveau",
        reading="kernel.modules",
        look=Look(part("kernel.modules", "nouveau")),
        expected=same("absent"),
        repair=by_hand(
            "on {node}: blacklist nouveau in /etc/modprobe.d, run update-initramfs -u, then reboot "
            "the node"
        ),
        applies=has_gpus,
    ),
    _alike(
        id="kernel.page_merging",
        claim="All nodes of a hardware class have the same Kernel Samepage Merging setting.",
        why="The kernel thread that looks for identical pages takes CPU time and cache from jobs.",
        blind="How many pages the kernel merges.",
        source="kernel documentation, admin-guide/mm/ksm",
        reading="kernel.state",
        look=Look(part("kernel.state", "/sys/kernel/mm/ksm/run")),
        repair=by_hand("on {node}: find out what wrote to {device} (such as ksmtuned)"),
        explained_by=OTHER_KERNEL,
    ),
    _alike(
        kind=Kind.SLOTS,
        id="kernel.security",
        claim="All nodes of a hardware class have the same security modules.",
        why="A program that AppArmor or lockdown restricts on one node fails on that node only.",
        blind="The profiles and policies of these modules.",
        source="kernel documentation, admin-guide/LSM",
        reading="kernel.state",
        look=Look(
            part("kernel.state", "/sys/kernel/security/lsm", "/sys/kernel/security/lockdown")
        ),
        repair=by_hand(
            "on {node}: compare the Secure Boot state and the kernel arguments security=, lsm= and "
            "lockdown= with those of its peers"
        ),
        explained_by=OTHER_KERNEL,
    ),
    Rule(
        id="kernel.setting",
        claim="Every declared setting in /sys and /proc is in effect.",
        why=(
            "A wrong huge page, clock or interrupt setting silently slows down a node. A setting "
            "that does not exist on the machine is also reported."
        ),
        blind=(
            "A setting that is changed and restored between two checks. Settings that the "
            "description does not declare."
        ),
        source=(
            "kernel documentation: admin-guide/mm/transhuge, admin-guide/pm/cpufreq, "
            "core-api/workqueue, core-api/irq/irq-affinity"
        ),
        reading="kernel.files",
        look=Look(made("kernel.files", _settings)),
        expected=each(lambda view: {path: file.value for path, file in _files(view).items()}),
        text=Text(detail=_which),
        repair=by_role(
            "kernel, cpu_sets",
            roles=lambda view, path: (
                "cpu_sets"
                if path in [file.path for file in view.plan.hardware.cpu_files]
                else "kernel",
            ),
        ),
        applies=lambda view: bool(_files(view)),
        explained_by=tuple(
            Cause("file.content", device=file, of=Effect(device=path))
            for file, paths in AT_BOOT.items()
            for path in paths
        ),
    ),
    _alike(
        id="kernel.taint",
        claim="The kernel has the same taint flags on all nodes of a hardware class.",
        why="Package versions do not reveal force-loaded modules, staging drivers or live patches.",
        blind=(
            "Proprietary, out-of-tree and unsigned modules (bits 0, 12, 13), which most GPU nodes "
            "load."
        ),
        source="kernel documentation, admin-guide/tainted-kernels",
        reading="kernel.tainted",
        look=Look(
            pick=lambda value: [
                name for bit, name in KINDS.items() if int(number(value)) >> bit & 1
            ]
        ),
        repair=by_hand("on {node}: journalctl -k -g taint shows the cause"),
        applies=own_kernel,
        explained_by=OTHER_KERNEL,
    ),
    _alike(
        kind=Kind.SLOTS,
        id="kernel.thp",
        claim="All nodes of a hardware class have the same transparent huge page settings.",
        why="Without huge pages, many jobs are slower. Defragmentation can stall allocations.",
        blind="Huge pages that programs request with madvise(2).",
        source="kernel documentation, admin-guide/mm/transhuge",
        reading="kernel.state",
        look=Look(part("kernel.state", f"{THP}/enabled", f"{THP}/defrag", f"{THP}/shmem_enabled")),
        repair=by_hand(
            "declare kernel.transparent_hugepages for the hardware class, or find out what set "
            "{device} on {node} (such as tuned or a script)"
        ),
        explained_by=(Cause("kernel.setting", at=SAME_DEVICE), *OTHER_KERNEL),
    ),
    _alike(
        kind=Kind.SLOTS,
        id="sysctl.common",
        claim="Undeclared sysctls have the same values on all nodes of a hardware class.",
        why="A buffer size or watchdog setting from a test can stay in effect on one node.",
        blind="Sysctls outside a fixed list. Declared sysctls, which sysctl.running checks.",
        source="kernel documentation, admin-guide/sysctl, networking/ip-sysctl",
        reading="sysctl.common",
        look=Look(where("sysctl.common", declared, among=False)),
        repair=by_hand(
            "declare {device} in os.sysctl, or run on {node}: sysctl -w {device}='{expected}'"
        ),
        explained_by=OTHER_KERNEL,
    ),
    Rule(
        id="sysctl.persisted",
        claim="No other sysctl.d file sets a declared key to a different value.",
        why=(
            "Running sysctl --system would apply the conflicting value. This is only a warning "
            "because Lockstep's file wins at boot (systemd-sysctl.service.d/50-lockstep.conf)."
        ),
        blind="A missing Lockstep file (see file.content). Keys set after systemd-sysctl has run.",
        source="sysctl.d(5)",
        reading="sysctl.persisted",
        look=Look(_persisted_items, pick=of_map(lambda entry: entry["value"])),
        expected=each(declared),
        text=Text(detail=_winner),
        severity=WARNING,
        repair=by_hand(
            "on {node}: remove {device} from the file named in the detail; no role manages it"
        ),
    ),
    Rule(
        id="sysctl.running",
        claim="Every declared sysctl is in effect.",
        why="A sysctl.d file can be correct while the kernel uses a different value.",
        blind="Keys that the description does not declare. Values in jobs' network namespaces.",
        source="sysctl(8)",
        reading="sysctl.running",
        expected=each(declared),
        repair=by_role("os_settings"),
        explained_by=(
            Cause("sysctl.persisted", at=SAME_DEVICE),
            Cause("file.content", device="/etc/sysctl.d/99-zz-lockstep.conf"),
        ),
    ),
)
