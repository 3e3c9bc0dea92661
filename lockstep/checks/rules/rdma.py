"""Rules about RDMA devices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    DEPLOY,
    by_hand,
    by_role,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Text,
    each,
    same,
)
from lockstep.checks.rules._gpu import has_gpus
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE, joined
from lockstep.checks.rules._rdma import (
    DEVICES,
    FOLLOWS_COUNT,
    FOLLOWS_NAMES,
    UNREAD_WITH_COUNT,
    alike,
    counted,
    device_by_device,
    has_rdma,
    judged,
    named,
)
from lockstep.node.check.judge import Judgement
from lockstep.probe.record import Unread
from lockstep.spec.names import expand

FOLDER = "/dev/infiniband/"
MANAGER, VERBS = FOLDER + "rdma_cm", FOLDER + "uverbs"
ABSENT = "absent"


def _access_items(view: View) -> Items:
    found = view.items("rdma.device_files")
    if isinstance(whole := found.get(""), Unread):
        return {"": whole}
    # Others, such as umad0, control the whole fabric: not every user may open them.
    items: Items = {path: mode for path, mode in found.items() if path.startswith(VERBS)}
    items = items or {VERBS + "0": ABSENT}
    return {**items, MANAGER: found.get(MANAGER, ABSENT)}


def _access_expected(view: View) -> dict[str, JsonValue]:
    return {path: "666" for path in _access_items(view) if path}


def _missing(view: View, device: str) -> str:
    named = view.plan.hardware.hardware.nics.rdma_devices
    found = view.read("rdma.names")
    if not named or not isinstance(found, list):
        return ""
    missing = [name for name in expand(named) if name not in found]
    return f"missing: {', '.join(missing)}" if missing else ""


def _count_items(view: View) -> Items:
    found, nics = view.read("rdma.count"), view.plan.hardware.hardware.nics
    if nics.rdma_devices and isinstance(found, int):
        # rdma.names judges which devices are the fabric's; others (storage) are not counted.
        return {"": min(found, nics.count)}
    return {"": found}


def _count_on_node(view: View) -> Iterator[Judgement]:
    wanted = view.plan.hardware.hardware.nics.count
    yield Judgement(("rdma.count",), expected=wanted, bound="at least", shown="{} RDMA devices")


NAMES = (
    *("mlx5_core", "mlx5_ib", "mlx4_core", "bnxt_re", "irdma", "efa"),
    *("ib_core", "ib_uverbs", "ib_umad", "ib_ipoib", "rdma_cm", "rdma_ucm"),
)


def _driver_words(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the modules that differ."""
    here, there = str(found).split(", "), str(expected).split(", ")
    odd = [place for place, name in enumerate(NAMES) if here[place] != there[place]]
    return (
        ", ".join(f"{NAMES[place]} {here[place]}" for place in odd),
        ", ".join(f"{NAMES[place]} {there[place]}" for place in odd),
    )


NAMING = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"


def _names_expected(view: View) -> JsonValue:
    return list[JsonValue](sorted(named(view)))


def _names_items(view: View) -> Items:
    found = view.read("rdma.names")
    wanted = _names_expected(view)
    if not isinstance(found, list) or not isinstance(wanted, list):
        return {"": found}
    # Further adapters (storage, management) are not judged here.
    return {"": [name for name in found if name in wanted] if set(wanted) <= set(found) else found}


def _names_on_node(view: View) -> Iterator[Judgement]:
    # With further adapters the count alone does not show which one is lost.
    yield Judgement(("rdma.names",), all_of=tuple(sorted(named(view))))


NOWHERE = -1


def _numa_expected(view: View) -> dict[str, JsonValue]:
    """Expect a NUMA node of each device, on machines with several NUMA nodes."""
    wanted = judged(view, "rdma.numa")
    several = view.plan.hardware.hardware.numa_nodes > 1
    for device, node in view.items("rdma.numa").items():
        if several and node == NOWHERE and device in wanted:
            wanted[device] = "0 or above"
    return wanted


_same_set = partial(
    Rule,
    look=Look(devices=DEVICES),
    kind=Kind.MULTISET,
    peers=Peers.CLASS,
    severity=WARNING,
    applies=has_rdma,
)
"""Values that the devices of a node share with its peers, in any order."""

RULES = (
    Rule(
        id="rdma.access",
        claim="Every user may open the RDMA devices.",
        why="The job of a user without access falls back to TCP or ends, on this node only.",
        blind="Access lists. Device files inside of containers.",
        source="Linux, drivers/infiniband/core: uverbs_main.c and ucma.c give mode 0666",
        reading="rdma.device_files",
        look=Look(_access_items),
        expected=each(_access_expected),
        text=Text(lambda value: ABSENT if value == ABSENT else f"mode {value}"),
        repair=by_role("rdma"),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.count", of=Effect(found=ABSENT))),
    ),
    _same_set(
        id="rdma.board",
        claim="The RDMA devices of a hardware class have the same board id.",
        why="A replacement adapter of another type has other limits and firmware.",
        blind="Adapters whose driver gives no board id: they count as equal.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband (board_id)",
        reading="rdma.board",
        expected=each(lambda view: judged(view, "rdma.board")),
        text=Text(counted, detail=lambda view, device: device_by_device(view, "rdma.board")),
        repair=by_hand(
            peers=(
                "replace the device of {node} that the detail names, or give the node a "
                "hardware class of its own"
            )
        ),
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES),
    ),
    Rule(
        id="rdma.count",
        claim="Every node has the RDMA devices of its hardware class.",
        why="A job with one adapter less has less bandwidth, or uses TCP without a message.",
        blind="A device that is listed and does not work.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.count",
        look=Look(_count_items),
        expected=same(lambda view: view.plan.hardware.hardware.nics.count),
        text=Text(
            lambda value: f"{value} RDMA devices" if value != 1 else "1 RDMA device",
            detail=_missing,
        ),
        repair=by_role(
            "rdma",
            (
                f"{DEPLOY}; a device that stays away: lspci, journalctl -k -g "
                "'mlx|rdma|infiniband', then reseat or replace the adapter"
            ),
        ),
        applies=has_rdma,
        on_node=OnNode(Local.JOBS, _count_on_node),
    ),
    Rule(
        id="rdma.driver",
        claim="All nodes of a hardware class have the same RDMA driver stack.",
        why="The vendor's modules and those of the kernel behave differently under load.",
        blind="Two builds with the same version, and modules without a version.",
        source="kernel documentation, ABI/testing/sysfs-module (version, srcversion)",
        reading="kernel.modules",
        look=Look(joined("kernel.modules", *NAMES)),
        peers=Peers.CLASS,
        text=Text(words=_driver_words),
        severity=WARNING,
        repair=by_hand(
            "on {node}: install the RDMA packages of its peers, then reboot it when it is idle"
        ),
        applies=has_rdma,
        explained_by=(*OTHER_KERNEL, *FOLLOWS_COUNT),
    ),
    _same_set(
        id="rdma.firmware",
        claim="The RDMA devices of a hardware class have the same firmware.",
        why=(
            "Firmware decides congestion control and retransmission. A mixed fabric is slow, "
            "and no single node shows why."
        ),
        blind="Firmware that is equally old everywhere.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.firmware",
        expected=each(lambda view: judged(view, "rdma.firmware")),
        text=Text(counted, detail=lambda view, device: device_by_device(view, "rdma.firmware")),
        repair=by_hand(
            peers=(
                "flash the device of {node} that the detail names to the firmware of its peers "
                "({expected}), then reset it"
            )
        ),
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES, Cause("rdma.board")),
    ),
    Rule(
        id="rdma.gpu_affinity",
        claim="Each RDMA device is next to the same GPUs in a hardware class.",
        why=(
            "NCCL pairs a GPU with the adapter at the same PCIe switch; other pairs take a "
            "longer way."
        ),
        blind="Machines where no adapter shares a switch with a GPU.",
        source="PCI addresses below /sys/devices; NVIDIA, GPUDirect RDMA, supported systems",
        reading="rdma.nearest_gpus",
        look=Look(devices=DEVICES),
        kind=Kind.SLOTS,
        expected=each(lambda view: judged(view, "rdma.nearest_gpus")),
        peers=Peers.CLASS,
        repair=by_hand("on {node}: put {device} into the same slot as on its peers"),
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
        why="Two ports with one GUID answer for each other, and connections break on both.",
        blind="Devices outside of this cluster on the same fabric.",
        source="InfiniBand Architecture Specification, volume 1, EUI-64",
        reading=DEVICES,
        look=Look(devices="rdma.firmware"),
        kind=Kind.UNIQUE,
        repair=by_hand(
            "find out which of {node} has the GUID of another device, and flash its own"
        ),
        applies=has_rdma,
        explained_by=UNREAD_WITH_COUNT,
    ),
    alike(
        id="rdma.interface",
        claim="Each RDMA device has the same network interface as on its peers.",
        why="Interfaces name the rails. Two that are swapped send traffic to the wrong rail.",
        blind="Cables that are swapped at the switch. Devices that are not declared.",
        source="rdma(8), rdma link show; systemd.link(5)",
        reading="rdma.netdev",
        expected=each(lambda view: judged(view, "rdma.netdev")),
        repair=by_hand(
            "on {node}: compare the interface names of udev (networkctl, "
            "/etc/systemd/network) with a peer"
        ),
        explained_by=(*UNREAD_WITH_COUNT, *OTHER_MACHINE),
    ),
    Rule(
        id="rdma.names",
        claim="The RDMA devices have the declared names.",
        why=(
            "NCCL_IB_HCA and UCX_NET_DEVICES use these names. NCCL and UCX ignore a renamed "
            "device without a message."
        ),
        blind="Which adapter has which name.",
        source="rdma-core, udev/75-rdma-description.rules; rdma(8), dev set name",
        reading="rdma.names",
        look=Look(_names_items),
        expected=same(_names_expected),
        repair=by_role("rdma"),
        applies=lambda view: has_rdma(view) and bool(named(view)),
        on_node=OnNode(Local.JOBS, _names_on_node),
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_COUNT, Cause("file.content", device=NAMING)),
    ),
    alike(
        id="rdma.numa",
        claim="Each RDMA device is at the same NUMA node in a hardware class.",
        why=(
            "Data between a GPU and an adapter at the other socket crosses the link between "
            "the sockets."
        ),
        blind="Where the plan's CPUs are: cpu.numa judges that.",
        source="kernel documentation, ABI/testing/sysfs-bus-pci (numa_node)",
        reading="rdma.numa",
        expected=each(_numa_expected),
        text=Text(lambda value: f"NUMA node {value}"),
        repair=by_hand(
            "on {node}: put {device} into the same slot as on its peers; compare the BIOS"
        ),
        explained_by=(*UNREAD_WITH_COUNT, Cause("cpu.numa"), *OTHER_MACHINE),
    ),
)
