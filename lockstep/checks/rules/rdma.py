"""Rules about RDMA devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

from pydantic import JsonValue

from lockstep.checks.context import Items, View, has_role
from lockstep.checks.looks import joined, made, whole
from lockstep.checks.peer_settings import OTHER_KERNEL, OTHER_MACHINE
from lockstep.checks.rule import (
    DEPLOY,
    SAME_DEVICE,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    as_text,
    by_hand,
    by_role,
    each,
    same,
)
from lockstep.checks.rules._gpu import has_gpus
from lockstep.node.check.judge import Judgement
from lockstep.spec.names import expand

DEVICES = "rdma.guid"
"""The reading that lists the devices in /sys/class/infiniband."""

UNREAD_WITH_COUNT = (Cause("rdma.count", of=UNREAD),)
FOLLOWS_COUNT = (Cause("rdma.count"),)
"""A missing device also changes other readings, but is reported only once."""
FOLLOWS_NAMES = (*FOLLOWS_COUNT, Cause("rdma.names"))
"""A renamed device also counts as undeclared, but is reported only once."""


def of_the_fabric(view: View, reading: str) -> Items:
    """Return the items of a reading for the declared devices, or all items if none are declared.

    Adapters outside the fabric, for storage or management, are left out.
    """
    items = view.items(reading)
    named = view.plan.hardware.hardware.nics.rdma_devices
    if not named or "" in items:
        return items
    declared = expand(named)
    if all(port in declared for port in items):
        return items
    return {port: value for port, value in items.items() if port.split("/")[0] in declared}


def on_fabric(reading: str) -> Callable[[View], Items]:
    """Return a function that selects the declared devices of a reading."""
    return partial(of_the_fabric, reading=reading)


def named(view: View) -> tuple[str, ...]:
    """Return the declared fabric devices. If none are declared, all devices are on the fabric."""
    return tuple(expand(view.plan.hardware.hardware.nics.rdma_devices or ""))


def judged(view: View, reading: str, wanted: JsonValue = None) -> dict[str, JsonValue]:
    """Return the devices and ports that a rule checks, with their declared value or None.

    A device without a value in the reading is included; its value counts as not read.
    """
    there = {*of_the_fabric(view, reading), *of_the_fabric(view, DEVICES)} - {""}
    return dict.fromkeys(sorted(there), wanted)


has_rdma = has_role("rdma")


def counted(values: JsonValue) -> str:
    """Return the values of all devices as text, such as ``7 x 28.39, 1 x 28.37``."""
    if not isinstance(values, list):
        return as_text(values)
    counts = Counter(as_text(value) for value in values).most_common()
    shown = (f"{count} x {value}" if len(counts) > 1 else value for value, count in counts)
    return ", ".join(shown)


def device_by_device(view: View, reading: str) -> str:
    """Return the value of each device as text, for rules that compare sets of values."""
    found = of_the_fabric(view, reading)
    return ", ".join(f"{device}: {as_text(value)}" for device, value in sorted(found.items()))


alike = partial(
    Rule, look=Look(devices=DEVICES), kind=Kind.SLOTS, peers=Peers.CLASS, applies=has_rdma
)
"""A rule that compares each device or port with its counterpart on the peers."""


def _firmware(view: View) -> JsonValue:
    declared = view.plan.hardware.hardware.firmware.rdma
    return None if declared is None else [declared] * len(judged(view, "rdma.firmware"))


FOLDER = "/dev/infiniband/"
MANAGER, VERBS = FOLDER + "rdma_cm", FOLDER + "uverbs"
ABSENT = "absent"


def _accessible(view: View, found: Items) -> Items:
    # Other files, such as umad0, control the whole fabric, so they must not be open to all users.
    items: Items = {path: mode for path, mode in found.items() if path.startswith(VERBS)}
    return {**(items or {VERBS + "0": ABSENT}), MANAGER: found.get(MANAGER, ABSENT)}


_access_items = made("rdma.device_files", _accessible)


def _missing(view: View, device: str) -> str:
    found = view.read("rdma.names")
    missing = [name for name in named(view) if isinstance(found, list) and name not in found]
    return f"missing: {', '.join(missing)}" if missing else ""


def _counted(view: View, found: JsonValue) -> JsonValue:
    nics = view.plan.hardware.hardware.nics
    # rdma.names checks the devices of the fabric by name; others (storage) are not counted.
    return min(found, nics.count) if nics.rdma_devices and isinstance(found, int) else found


NAMES = (
    *("mlx5_core", "mlx5_ib", "mlx4_core", "bnxt_re", "irdma", "efa"),
    *("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm"),
)


def _driver_words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the modules that differ, as found and as expected."""
    here, there = str(found).split(", "), str(expected).split(", ")
    odd = [place for place, name in enumerate(NAMES) if here[place] != there[place]]
    return (
        ", ".join(f"{NAMES[place]} {here[place]}" for place in odd),
        ", ".join(f"{NAMES[place]} {there[place]}" for place in odd),
    )


def _names(view: View, found: JsonValue) -> JsonValue:
    wanted = named(view)
    # Other adapters (storage, management) are not checked here.
    complete = isinstance(found, list) and set(wanted) <= set(map(str, found))
    return [*sorted(wanted)] if complete else found


NOWHERE = -1


def _numa_expected(view: View) -> dict[str, JsonValue]:
    """On machines with several NUMA nodes, expect each device to be attached to a NUMA node."""
    nodes = view.items("rdma.numa")
    several = view.plan.hardware.hardware.numa_nodes > 1
    return {
        device: "0 or above" if several and nodes.get(device) == NOWHERE else None
        for device in judged(view, "rdma.numa")
    }


_same_set = partial(
    Rule,
    look=Look(devices=DEVICES),
    kind=Kind.MULTISET,
    peers=Peers.CLASS,
    severity=WARNING,
    applies=has_rdma,
)
"""A rule that compares the values of all devices, regardless of which device has which value."""

RULES = (
    Rule(
        id="rdma.access",
        claim="Every user has access to the RDMA devices.",
        why="Without access, a user's job falls back to TCP or fails.",
        blind="Access control lists. Device files in containers.",
        source="Linux, drivers/infiniband/core: uverbs_main.c and ucma.c set mode 0666",
        reading="rdma.device_files",
        look=Look(_access_items),
        expected=each(lambda view: {path: "666" for path in _access_items(view) if path}),
        text=Text(lambda value: ABSENT if value == ABSENT else f"mode {value}"),
        repair=by_role("rdma"),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.count", of=Effect(found=ABSENT))),
    ),
    _same_set(
        id="rdma.board",
        claim="The RDMA devices of all nodes of a hardware class have the same board ids.",
        why="A replacement adapter of a different type has different limits and firmware.",
        blind="Differences between adapters whose drivers report no board id.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband (board_id)",
        reading="rdma.board",
        expected=each(lambda view: judged(view, "rdma.board")),
        text=Text(counted, detail=lambda view, device: device_by_device(view, "rdma.board")),
        repair=by_hand(
            peers=(
                "on {node}: replace the device whose board id differs (see the detail), or give "
                "the node its own hardware class"
            )
        ),
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES),
    ),
    Rule(
        id="rdma.count",
        claim="Every node has as many RDMA devices as its hardware class declares.",
        why="If an adapter is missing, a job has less bandwidth or silently falls back to TCP.",
        blind="A device that is listed but does not work.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.count",
        look=Look(whole("rdma.count", _counted)),
        expected=same(lambda view: view.plan.hardware.hardware.nics.count),
        text=Text(
            lambda value: f"{value} RDMA devices" if value != 1 else "1 RDMA device",
            detail=_missing,
        ),
        repair=by_role(
            "rdma",
            (
                f"{DEPLOY}; if a device is still missing, check lspci and journalctl -k -g "
                "'mlx|rdma|infiniband', then reseat or replace the adapter"
            ),
        ),
        applies=has_rdma,
        on_node=OnNode(
            Local.JOBS,
            lambda view: [
                Judgement(
                    ("rdma.count",),
                    expected=view.plan.hardware.hardware.nics.count,
                    bound="at least",
                    shown="{} RDMA devices",
                )
            ],
        ),
    ),
    Rule(
        id="rdma.driver",
        claim="All nodes of a hardware class have the same RDMA driver stack.",
        why="The vendor's modules and the kernel's own modules behave differently under load.",
        blind="Differences between module builds that have the same version or no version.",
        source="kernel documentation, ABI/testing/sysfs-module (version, srcversion)",
        reading="kernel.modules",
        look=Look(joined("kernel.modules", *NAMES)),
        peers=Peers.CLASS,
        text=Text(words=_driver_words),
        severity=WARNING,
        repair=by_hand(
            "on {node}: install the same RDMA packages as on its peers, then reboot the node when "
            "it is idle"
        ),
        applies=has_rdma,
        explained_by=(*OTHER_KERNEL, *FOLLOWS_COUNT),
    ),
    _same_set(
        id="rdma.firmware",
        claim=(
            "RDMA devices have the declared firmware or, if none is declared, the firmware "
            "versions of the node's peers."
        ),
        why=(
            "The firmware controls congestion and retransmission. A fabric with mixed versions can "
            "be slow, and no single node shows the cause."
        ),
        blind="The same outdated firmware on all nodes, if none is declared.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.firmware",
        expected=each(lambda view: judged(view, "rdma.firmware"), common=_firmware),
        text=Text(counted, detail=lambda view, device: device_by_device(view, "rdma.firmware")),
        repair=by_hand(
            "on {node}: install the declared firmware ({expected}) on the devices whose version "
            "differs (see the detail), then reset them",
            peers=(
                "on {node}: install the firmware version that its peers run ({expected}) on the "
                "device whose version differs (see the detail), then reset the device"
            ),
        ),
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES, Cause("rdma.board")),
    ),
    Rule(
        id="rdma.gpu_affinity",
        claim="Each RDMA device is closest to the same GPUs on all nodes of a hardware class.",
        why=(
            "NCCL pairs a GPU with the adapter on the same PCIe switch. Data between any other "
            "pair takes a longer path."
        ),
        blind="Machines where no adapter shares a switch with a GPU.",
        source="PCI addresses below /sys/devices; NVIDIA, GPUDirect RDMA, supported systems",
        reading="rdma.nearest_gpus",
        look=Look(devices=DEVICES),
        kind=Kind.SLOTS,
        expected=each(lambda view: judged(view, "rdma.nearest_gpus")),
        peers=Peers.CLASS,
        repair=by_hand("on {node}: move {device} to the same PCI slot as on its peers"),
        applies=lambda view: has_rdma(view) and has_gpus(view),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("gpu.count"),
            Cause("rdma.numa", at=SAME_DEVICE),
            *OTHER_MACHINE,
        ),
    ),
    Rule(
        id="rdma.guid",
        claim="No two RDMA devices have the same GUID.",
        why=(
            "The fabric cannot tell two ports with the same GUID apart, and connections to both "
            "fail."
        ),
        blind="Devices outside this cluster on the same fabric.",
        source="InfiniBand Architecture Specification, volume 1, EUI-64",
        reading=DEVICES,
        look=Look(devices="rdma.firmware"),
        kind=Kind.UNIQUE,
        repair=by_hand(
            "find out which of the nodes {node} has a copied GUID, and restore the original GUID "
            "with the vendor's firmware tool"
        ),
        applies=has_rdma,
        explained_by=UNREAD_WITH_COUNT,
    ),
    alike(
        id="rdma.interface",
        claim="Each RDMA device has the same network interface on all nodes of a hardware class.",
        why=(
            "Each interface belongs to a rail. If interfaces are swapped, traffic uses the wrong "
            "rail."
        ),
        blind="Cables that are swapped at the switch. Devices that are not declared.",
        source="rdma(8), rdma link show; systemd.link(5)",
        reading="rdma.netdev",
        expected=each(lambda view: judged(view, "rdma.netdev")),
        repair=by_hand(
            "on {node}: compare the interface names that udev assigns (networkctl, "
            "/etc/systemd/network) with those of a peer"
        ),
        explained_by=(*UNREAD_WITH_COUNT, *OTHER_MACHINE),
    ),
    Rule(
        id="rdma.names",
        claim="The RDMA devices have the declared names.",
        why=(
            "NCCL_IB_HCA and UCX_NET_DEVICES use these names. NCCL and UCX silently ignore a "
            "renamed device."
        ),
        blind="Which adapter has which name.",
        source="rdma-core, udev/75-rdma-description.rules; rdma(8), dev set name",
        reading="rdma.names",
        look=Look(whole("rdma.names", _names)),
        expected=same(lambda view: [*sorted(named(view))]),
        repair=by_role("rdma"),
        applies=lambda view: has_rdma(view) and bool(named(view)),
        # On a node with other adapters, the count does not show that a fabric adapter is missing.
        on_node=OnNode(
            Local.JOBS,
            lambda view: [Judgement(("rdma.names",), all_of=tuple(sorted(named(view))))],
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *FOLLOWS_COUNT,
            Cause("file.content", device="/etc/udev/rules.d/60-rdma-persistent-naming.rules"),
        ),
    ),
    alike(
        id="rdma.numa",
        claim=(
            "Each RDMA device is attached to the same NUMA node on all nodes of a hardware class."
        ),
        why=(
            "Data between a GPU and an adapter on the other socket must cross the link between the "
            "sockets."
        ),
        blind="The NUMA nodes of the planned CPUs, which cpu.numa checks.",
        source="kernel documentation, ABI/testing/sysfs-bus-pci (numa_node)",
        reading="rdma.numa",
        expected=each(_numa_expected),
        text=Text(lambda value: f"NUMA node {value}"),
        repair=by_hand(
            "on {node}: move {device} to the same PCI slot as on its peers, and compare the BIOS "
            "settings with theirs"
        ),
        explained_by=(*UNREAD_WITH_COUNT, Cause("cpu.numa"), *OTHER_MACHINE),
    ),
)
