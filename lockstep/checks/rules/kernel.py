"""Rules about kernel settings, modules, logs and sysctls."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause, Effect
from lockstep.checks.compare import number
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Text,
    each,
    same,
)
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._gpu import has_gpus
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE, part
from lockstep.plan.running import GOVERNOR, NEW_INTERRUPTS, THP, UNBOUND_WORK, KernelFile
from lockstep.probe.record import Unread, item
from lockstep.report import fold

SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"


FAULTS = {4: "machine check", 5: "bad page", 7: "oops", 14: "soft lockup"}


NAMES = (
    *("bnxt_en", "ice", "ena", "knem", "xpmem", "lustre", "nvme", "ipmi_si"),
    *("edac_core", "skx_edac", "i10nm_edac", "amd64_edac"),
)


NOT_THERE = "no such file: this kernel or machine does not have it"
AT_BOOT = {
    # File that sets them at boot -> settings.
    "/etc/tmpfiles.d/50-lockstep-cpus.conf": (UNBOUND_WORK, NEW_INTERRUPTS),
    "/etc/tmpfiles.d/50-lockstep-kernel.conf": (f"{THP}/enabled", f"{THP}/defrag", GOVERNOR),
}


def _files(view: View) -> dict[str, KernelFile]:
    hardware = view.plan.hardware
    return {file.path: file for file in (*hardware.cpu_files, *hardware.kernel_files)}


def _values(view: View, file: KernelFile) -> dict[str, str | Unread] | Unread | None:
    """Return path -> value of the files that a pattern covers; None if it was not read."""
    found = view.record.entry("kernel.files", file.path)
    if found is None or isinstance(found, Unread):
        return found
    if not isinstance(found, dict):
        return Unread(unread=f"not a map: {found!r:.60}")
    return {
        path: value if isinstance(value := item(shown), Unread) else file.read(str(value))
        for path, shown in found.items()
    }


def _setting_items(view: View) -> Items:
    whole = view.read("kernel.files")
    if isinstance(whole, Unread):
        return {"": whole}
    items: Items = {}
    for path, file in _files(view).items():
        values = _values(view, file)
        if isinstance(values, dict):
            items[path] = _folded(file, values)
        elif values is not None:
            items[path] = values
    return items


def _folded(file: KernelFile, values: dict[str, str | Unread]) -> JsonValue | Unread:
    """Return one value for all files of a pattern: the planned one, or the differing ones."""
    if not values:
        return NOT_THERE
    wrong = [v for v in values.values() if not isinstance(v, Unread) and v != file.value]
    if not wrong:
        unread = [value for value in values.values() if isinstance(value, Unread)]
        return unread[0] if unread else file.value
    if len(set(wrong)) == 1 and len(wrong) == len(values):
        return wrong[0]
    counts = {value: wrong.count(value) for value in sorted(set(wrong))}
    return ", ".join(f"{value} on {count} of {len(values)}" for value, count in counts.items())


def _which(view: View, path: str) -> str:
    """Return the files of a pattern that differ, by the part that the star matches."""
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


def _setting_roles(view: View, path: str) -> tuple[str]:
    of_cpus = path in [file.path for file in view.plan.hardware.cpu_files]
    return ("cpu_sets" if of_cpus else "kernel",)


KINDS = {
    1: "forced module",
    2: "CPU out of its specification",
    3: "module unloaded by force",
    8: "ACPI table overridden",
    10: "staging driver",
    11: "workaround for the firmware",
    15: "live patch",
}


def _kinds(value: JsonValue) -> JsonValue:
    return [name for bit, name in KINDS.items() if int(number(value)) >> bit & 1]


def _common_items(view: View) -> Items:
    keys, declared = view.items("sysctl.common"), view.plan.sysctl
    return {key: value for key, value in keys.items() if key not in declared}


def declared(view: View) -> dict[str, str]:
    """Return the declared values as the kernel prints them."""
    return {key: " ".join(value.split()) for key, value in view.plan.sysctl.items()}


def _persisted_items(view: View) -> Items:
    found = view.items("sysctl.persisted")
    owned = view.context.files_of(view.plan)
    items: Items = {}
    for key, entry in found.items():
        if isinstance(entry, Unread):
            items[key] = entry
        elif not isinstance(entry, dict) or "absent" in entry or entry["file"] in owned:
            items[key] = declared(view).get(key)  # file.content judges Lockstep's file
        else:
            items[key] = entry["value"]
    return items


def _winner(view: View, key: str) -> str:
    entry = view.items("sysctl.persisted").get(key)
    return f"set by {entry['file']}" if isinstance(entry, dict) else ""


def _persisted_expected(view: View) -> dict[str, JsonValue]:
    return dict(declared(view))


_alike = partial(Rule, peers=Peers.CLASS, severity=WARNING)
"""Settings that are compared with the peers."""

_alike_slots = partial(Rule, kind=Kind.SLOTS, peers=Peers.CLASS, severity=WARNING)
"""The same, item by item."""

RULES = (
    _alike(
        id="kernel.aspm",
        claim="PCIe power saving (ASPM) is equal in a hardware class.",
        why="A sleeping link needs microseconds to wake up, and each small transfer waits for it.",
        blind="Settings of the firmware for single links.",
        source="kernel documentation, admin-guide/kernel-parameters (pcie_aspm)",
        reading="kernel.state",
        look=Look(part("kernel.state", "/sys/module/pcie_aspm/parameters/policy")),
        repair=by_hand(
            "on {node}: compare pcie_aspm= on the kernel command line, and find what wrote {device}"
        ),
        explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="kernel.clocksource",
        claim="All nodes of a hardware class use the same clock source.",
        why=(
            "A kernel that stopped trusting the TSC uses a timer that is a hundred times "
            "slower: each read of the clock costs a microsecond."
        ),
        blind="A slow source on all nodes.",
        source="kernel documentation, timers/timekeeping",
        reading="kernel.state",
        look=Look(part("kernel.state", SOURCE)),
        peers=Peers.CLASS,
        repair=by_hand(
            "on {node}: read journalctl -k -g tsc; compare the BIOS and tsc= on the "
            "command line, then reboot it"
        ),
        explained_by=OTHER_KERNEL,
    ),
    Rule(
        id="kernel.faulted",
        claim="The kernel had no fault that it cannot recover from.",
        why="After an oops or a machine check the kernel runs on, but nothing on it is reliable.",
        blind="Warnings (bit 9), which drivers print without harm.",
        source="kernel documentation, admin-guide/tainted-kernels",
        reading="kernel.tainted",
        look=Look(
            pick=lambda value: [
                name for bit, name in FAULTS.items() if int(number(value)) >> bit & 1
            ]
        ),
        expected=same([]),
        repair=by_hand("drain {node}, keep journalctl -k of this boot, then reboot it"),
        applies=own_kernel,
    ),
    Rule(
        id="kernel.log",
        claim="The kernel log shows no fault.",
        why="Hung tasks, lock-ups and errors of disks and links precede a failure by hours.",
        blind="Messages that the ring buffer no longer holds. Faults in other words.",
        source=(
            "kernel sources: hung_task.c, watchdog.c, rcu/tree_stall.h, pcie/aer.c, sch_generic.c"
        ),
        reading="kernel.log",
        expected=same(0),
        text=Text(words=lambda found, expected: (f"{found} messages", "none")),
        severity=WARNING,
        repair=by_hand("on {node}: dmesg -T shows them; the finding stays until the next boot"),
        applies=own_kernel,
    ),
    _alike_slots(
        id="kernel.modules",
        claim="The same kernel modules are loaded, in the same version.",
        why=(
            "Without the driver of its memory controllers a node reports no errors. A driver "
            "from another source behaves differently."
        ),
        blind="Modules that are not on the list. RDMA and GPU modules have their own rules.",
        source="kernel documentation, ABI/testing/sysfs-module",
        reading="kernel.modules",
        look=Look(part("kernel.modules", *NAMES)),
        repair=by_hand("on {node}: modprobe {device} or find what loaded it (/etc/modules-load.d)"),
        explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    ),
    Rule(
        id="kernel.nouveau",
        claim="The nouveau driver is not loaded.",
        why="It takes the GPUs at boot, and NVIDIA's driver does not get them.",
        blind="Other drivers that take a GPU, such as vfio-pci.",
        source="NVIDIA driver installation guide, disabling nouveau",
        reading="kernel.modules",
        look=Look(part("kernel.modules", "nouveau")),
        expected=same("absent"),
        repair=by_hand(
            "on {node}: blacklist nouveau in /etc/modprobe.d, update-initramfs -u, then reboot it"
        ),
        applies=has_gpus,
    ),
    _alike(
        id="kernel.page_merging",
        claim="Kernel page merging (KSM) is equal in a hardware class.",
        why="The thread that looks for equal pages takes CPU time and cache from jobs.",
        blind="How much it merges.",
        source="kernel documentation, admin-guide/mm/ksm",
        reading="kernel.state",
        look=Look(part("kernel.state", "/sys/kernel/mm/ksm/run")),
        repair=by_hand("on {node}: find what wrote {device} (ksmtuned)"),
        explained_by=OTHER_KERNEL,
    ),
    _alike_slots(
        id="kernel.security",
        claim="All nodes of a hardware class have the same security modules.",
        why="What AppArmor or lockdown forbids on one node fails there only.",
        blind="Profiles and policies of the modules.",
        source="kernel documentation, admin-guide/LSM",
        reading="kernel.state",
        look=Look(
            part("kernel.state", "/sys/kernel/security/lsm", "/sys/kernel/security/lockdown")
        ),
        repair=by_hand(
            "on {node}: compare security=, lsm= and lockdown= on the kernel command line, "
            "and Secure Boot"
        ),
        explained_by=OTHER_KERNEL,
    ),
    Rule(
        id="kernel.setting",
        claim="Every declared setting below /sys and /proc is in force.",
        why=(
            "Other huge page, clock or interrupt settings slow one node without any message. A "
            "setting that a machine lacks is also a finding."
        ),
        blind=(
            "A setting that changes and changes back between two checks. Settings that the "
            "description does not declare."
        ),
        source=(
            "kernel documentation: admin-guide/mm/transhuge, admin-guide/pm/cpufreq, "
            "core-api/workqueue, core-api/irq/irq-affinity"
        ),
        reading="kernel.files",
        look=Look(_setting_items),
        expected=each(lambda view: {path: file.value for path, file in _files(view).items()}),
        text=Text(detail=_which),
        repair=by_role("kernel, cpu_sets", roles=_setting_roles),
        applies=lambda view: bool(_files(view)),
        explained_by=tuple(
            Cause("file.content", device=file, of=Effect(device=path))
            for file, paths in AT_BOOT.items()
            for path in paths
        ),
    ),
    _alike(
        id="kernel.taint",
        claim="Kernels have the same taint flags in a hardware class.",
        why="A forced, staging or live-patched module is a difference that no package shows.",
        blind=(
            "Proprietary and out-of-tree modules (bits 0, 12, 13), which every GPU node has "
            "sooner or later."
        ),
        source="kernel documentation, admin-guide/tainted-kernels",
        reading="kernel.tainted",
        look=Look(pick=_kinds),
        repair=by_hand("on {node}: journalctl -k -g taint names the cause"),
        applies=own_kernel,
        explained_by=OTHER_KERNEL,
    ),
    _alike_slots(
        id="kernel.thp",
        claim="Transparent huge pages are set equally in a hardware class.",
        why="Without them, or while the kernel compacts memory, a node is slower.",
        blind="What programs ask for themselves (madvise).",
        source="kernel documentation, admin-guide/mm/transhuge",
        reading="kernel.state",
        look=Look(part("kernel.state", f"{THP}/enabled", f"{THP}/defrag", f"{THP}/shmem_enabled")),
        repair=by_hand(
            "declare kernel.transparent_hugepages of the hardware class, or find what set "
            "{device} on {node} (tuned, a script)"
        ),
        explained_by=(Cause("kernel.setting", at=SAME_DEVICE), *OTHER_KERNEL),
    ),
    _alike_slots(
        id="sysctl.common",
        claim="Undeclared sysctls are equal in a hardware class.",
        why="A buffer size, a watchdog or a congestion control from a test stays on one node.",
        blind="Keys that are not on the list. Declared keys: sysctl.running judges those.",
        source="kernel documentation, admin-guide/sysctl, networking/ip-sysctl",
        reading="sysctl.common",
        look=Look(_common_items),
        repair=by_hand(
            "declare {device} in os.sysctl, or on {node}: sysctl -w {device}='{expected}'"
        ),
        explained_by=OTHER_KERNEL,
    ),
    Rule(
        id="sysctl.persisted",
        claim="No other file overrides a declared sysctl at the next boot.",
        why='"sysctl --system" would set the other value. At boot Lockstep\'s file wins '
        "(systemd-sysctl.service.d/50-lockstep.conf), so this is a warning.",
        blind="A missing file of Lockstep: file.content judges that. A unit that sets keys later.",
        source="sysctl.d(5)",
        reading="sysctl.persisted",
        look=Look(_persisted_items),
        expected=each(_persisted_expected),
        text=Text(detail=_winner),
        severity=WARNING,
        repair=by_hand(
            "on {node}: remove {device} from the file that the detail names; no role owns that file"
        ),
    ),
    Rule(
        id="sysctl.running",
        claim="Every declared sysctl is in force.",
        why="The file can be right while the kernel has another value.",
        blind="Keys that the description does not declare. Network namespaces of jobs.",
        source="sysctl(8)",
        reading="sysctl.running",
        expected=each(lambda view: dict(declared(view))),
        repair=by_role("os_settings"),
        explained_by=(
            Cause("sysctl.persisted", at=SAME_DEVICE),
            Cause("file.content", device="/etc/sysctl.d/99-zz-lockstep.conf"),
        ),
    ),
)
