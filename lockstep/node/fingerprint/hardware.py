"""The hardware of a node: firmware, processors, memory, PCI devices, disks; no serial numbers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from lockstep.node.fingerprint.disks import Disks
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.ethtool import firmware_of
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.interfaces import NET
from lockstep.node.fingerprint.sysctl import memory_kb
from lockstep.node.fingerprint.sysfs import common, names_in, value_of
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import bytes_of, exists, found_by, resolved

EXCEPTIONS_OF_HARDWARE: tuple[Exempt, ...] = ()
PCI = "/sys/bus/pci/devices"
DMI = "/sys/class/dmi/id"
OF_A_DEVICE = (
    *("subsystem_vendor", "subsystem_device", "class", "revision", "driver_override"),
    *("numa_node", "d3cold_allowed", "sriov_numvfs", "power/control"),
)
UNNAMED = ("0x0604", "0x0600", "0x0601", "0x0880", "0x1101")
"""Classes of bridges and parts of the processor: several hundred that an operator never sets, so
they are counted by kind."""
EFI = "/sys/firmware/efi/efivars"
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
"""EFI_GLOBAL_VARIABLE of the UEFI specification."""
CPU = "/sys/devices/system/cpu"
OF_A_CPU = frozenset(
    {
        *("vendor_id", "cpu family", "model", "model name", "stepping", "microcode", "flags"),
        *("siblings", "cpu cores", "bugs", "Features", "CPU implementer", "CPU part"),
    }
)
GIB = 1 << 20


def read_hardware(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each part; PCI devices are told by kind and order, not by address."""
    yield from _firmware()
    yield from _processors()
    yield from _memory()
    yield from _devices()
    yield from _disks()
    for name in names_in(NET):
        if exists(f"{NET}/{name}/device"):
            yield Entry(f"network device {name}", firmware_of(name))


def _firmware() -> Iterator[Entry]:
    """Yield the board, its firmware, and the parts that the firmware announces."""
    names = [name for name in names_in(DMI) if not re.search("serial|uuid|asset|modalias", name)]
    values = {name: value_of(f"{DMI}/{name}") for name in names}
    board = {name: value for name, value in values.items() if value and name != "uevent"}
    if board:
        yield Entry("board", board)
    for folder in found_by("/sys/class/tpm/tpm*"):
        version = value_of(f"{folder}/tpm_version_major") or "unknown"
        yield Entry(f"TPM {os.path.basename(folder)}", {"version": version})
    for path in found_by("/sys/class/ipmi/*"):
        yield Entry(f"BMC {os.path.basename(path)}", {"state": "present"})
    for folder in found_by("/sys/bus/platform/devices/ipmi_bmc*"):
        for file in ("firmware_revision", "ipmi_version", "manufacturer_id", "product_id"):
            value = value_of(f"{folder}/{file}")
            if value:
                yield Entry(f"BMC {file}", {"value": value})
    yield from _boot_variables()


def _boot_variables() -> Iterator[Entry]:
    """Yield how the machine boots; the first four bytes of a variable are attributes."""
    if not exists("/sys/firmware/efi"):
        return
    fields: Fields = {"mode": "UEFI"}
    for name in ("SecureBoot", "SetupMode"):
        data = _variable(name)
        if data:
            fields[name] = str(data[0])
    order = _variable("BootOrder")
    # The numbers of the entries are drawn by the firmware; their descriptions are the order.
    numbers = [int.from_bytes(order[at : at + 2], "little") for at in range(0, len(order), 2)]
    shown = []
    for number in numbers:
        entry = _variable(f"Boot{number:04X}")
        text = entry[6:].decode("utf-16-le", "replace").split("\0")[0]
        # Many firmwares write addresses and serial numbers into descriptions.
        shown.append(re.sub(r"[0-9A-Fa-f:-]{8,}", "<number>", text))
    if shown:
        fields["boot order"] = ", ".join(shown)
    yield Entry("EFI", fields)


def _variable(name: str) -> bytes:
    try:
        return bytes_of(f"{EFI}/{name}-{GLOBAL}")[4:]
    except Unread:
        return b""


def _processors() -> Iterator[Entry]:
    """Yield the processors: model, flags and microcode, and how they are arranged."""
    fields: Fields = {}
    # The kernel writes one CPU after the other, so that reading the first costs no more than that.
    first = bytes_of("/proc/cpuinfo", 8192).decode("ascii", "replace").split("\n\n")[0]
    for line in first.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in OF_A_CPU:
            fields[key.strip()] = value.strip()
    if "flags" in fields:
        fields["flags"] = " ".join(sorted(fields["flags"].split()))
    cpus = [name for name in names_in(CPU) if re.fullmatch(r"cpu\d+", name)]
    versions = common(value_of(f"{CPU}/{cpu}/microcode/version") for cpu in cpus)
    if versions is not None:
        fields["microcode"] = versions
    yield Entry("processors", {"CPUs": str(len(cpus)), **fields})
    for node in names_in("/sys/devices/system/node"):
        if re.fullmatch(r"node\d+", node):
            folder = f"/sys/devices/system/node/{node}"
            about = {file: value_of(f"{folder}/{file}") or "" for file in ("cpulist", "distance")}
            yield Entry(f"NUMA {node}", {**about, "memory": _blocks(folder)})


def _blocks(folder: str) -> str:
    """Return the memory in a folder of blocks (admin-guide/mm/memory-hotplug), in GiB.

    MemTotal lacks what the kernel keeps for itself, so it differs by a few pages.
    """
    size = int(value_of("/sys/devices/system/memory/block_size_bytes") or "0", 16)
    number = len([name for name in names_in(folder) if re.fullmatch(r"memory\d+", name)])
    return f"{number * size / (1 << 30):g} GiB"


def _memory() -> Iterator[Entry]:
    """Yield the memory; where the kernel has no blocks, it is rounded up to whole modules."""
    size = _blocks("/sys/devices/system/memory")
    total = memory_kb()
    if size == "0 GiB":
        step = 8 * GIB if total > 32 * GIB else GIB
        size = f"{-(-total // step) * step // GIB} GiB"
    yield Entry("memory", {"size": size})
    for path in found_by("/sys/devices/system/edac/mc/mc*/size_mb"):
        name = os.path.basename(os.path.dirname(path))
        yield Entry(f"memory controller {name}", {"size_mb": value_of(path) or ""})


def _devices() -> Iterator[Entry]:
    """Yield the PCI devices, numbered within their kind in the order of the addresses."""
    counts: dict[str, int] = {}
    bridges: dict[str, list[str]] = {}
    for address in names_in(PCI):
        folder = f"{PCI}/{address}"
        values = {file: value_of(f"{folder}/{file}") for file in ("class", "vendor", "device")}
        kind = ":".join((values[file] or "")[2:] for file in ("vendor", "device"))
        driver = (
            os.path.basename(resolved(f"{folder}/driver")) if exists(f"{folder}/driver") else ""
        )
        if (values["class"] or "").startswith(UNNAMED):
            bridges.setdefault(f"{kind} class {(values['class'] or '')[2:6]}", []).append(driver)
            continue
        counts[kind] = counts.get(kind, 0) + 1
        fields = {file: value_of(f"{folder}/{file}") for file in OF_A_DEVICE}
        known = {file: value for file, value in fields.items() if value is not None}
        yield Entry(f"PCI {kind} #{counts[kind]}", {"driver": driver or "none", **known})
    for kind, drivers in sorted(bridges.items()):
        shown = common(driver or "none" for driver in drivers) or "none"
        yield Entry(f"PCI {kind}", {"number": str(len(drivers)), "driver": shown})


def _disks() -> Iterator[Entry]:
    """Yield the disks by role; those without mount are told by model, and counted."""
    disks = Disks()
    spare: dict[str, int] = {}
    for name in names_in("/sys/block"):
        folder = f"/sys/block/{name}"
        if not exists(f"{folder}/device"):
            continue
        model = value_of(f"{folder}/device/model") or "unknown model"
        firmware = value_of(f"{folder}/device/firmware_rev") or value_of(f"{folder}/device/rev")
        size = value_of(f"{folder}/size") or "0"
        fields = {"model": model, "firmware": firmware or "unknown", "size": f"{size} sectors"}
        role = disks.role(f"/dev/{name}")
        if role != f"/dev/{name}":
            yield Entry(role, fields)
        else:
            kind = ", ".join(fields.values())
            spare[kind] = spare.get(kind, 0) + 1
    for kind, number in sorted(spare.items()):
        yield Entry(f"disk without mount, {kind}", {"number": str(number)})


HARDWARE: tuple[Domain, ...] = (Domain("hardware", read_hardware),)
