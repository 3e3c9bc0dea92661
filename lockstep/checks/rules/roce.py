"""Rules about the settings of RoCE adapters, and about the drivers of RDMA adapters."""

from __future__ import annotations

from functools import partial

from pydantic import JsonValue

from lockstep.catalog.nvidia.doca import WITH_MODULES
from lockstep.checks.context import Items, View
from lockstep.checks.looks import of_map
from lockstep.checks.peer_settings import OTHER_KERNEL, OTHER_MACHINE, only_difference
from lockstep.checks.rule import (
    DEPLOY,
    REBOOT,
    SAME_DEVICE,
    UNREAD,
    WARNING,
    Cause,
    Effect,
    Kind,
    Look,
    Peers,
    Pending,
    Rule,
    Severities,
    Text,
    by_hand,
    by_role,
    each,
    same,
)
from lockstep.checks.rules.rdma import (
    DEVICES,
    FOLLOWS_COUNT,
    FOLLOWS_NAMES,
    UNREAD_WITH_COUNT,
    counted,
    device_by_device,
    has_rdma,
    judged,
    on_fabric,
)
from lockstep.plan.fabric import DRIVER, is_declared, waits_for_boot
from lockstep.probe.record import MISSING, Unread
from lockstep.report import Severity

ACCELERATION = "rdma.acceleration"
"""The reading of each adapter's ROCE_ACCL register; empty if no tool can read it."""
ADAPTIVE_ROUTING = "adaptive_routing_forced_en"
NOT_ASKED = "unknown: no mlxreg or mstreg, or the adapter lacks the register"

FOLLOWS_PORT = (
    *UNREAD_WITH_COUNT,
    Cause("rdma.link_layer", at=SAME_DEVICE),
    Cause("rdma.port_state", at=SAME_DEVICE),
)


def _others(fields: dict[str, JsonValue]) -> JsonValue:
    others = sorted(f"{name} {state}" for name, state in fields.items() if name != ADAPTIVE_ROUTING)
    return ", ".join(others) or NOT_ASKED


def _routing(fields: dict[str, JsonValue]) -> JsonValue:
    words: dict[object, JsonValue] = {0: "off", 1: "on", None: NOT_ASKED}
    return words.get(fields.get(ADAPTIVE_ROUTING), NOT_ASKED)


_alike = partial(
    Rule,
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    applies=lambda view: has_rdma(view) and view.plan.hardware.hardware.nics.rdma == "roce",
)
"""A rule that compares a RoCE setting across peers."""


def _driver_on_disk(folder: object, version: object, ofed: object) -> str:
    source = {
        "absent": "no mlx5_core",
        "kernel": "the kernel's own mlx5_core",
    }.get(str(folder), f"mlx5_core of {folder}")
    return f"{source}, version {version}, OFED {ofed}"


def _driver_items(view: View) -> Items:
    items = view.items("rdma.driver_on_disk")
    if "" in items:
        return items
    values = [items.get(name, MISSING) for name in ("folder", "version", "ofed")]
    unread = [value for value in values if isinstance(value, Unread)]
    return {"": unread[0] if unread else _driver_on_disk(*values)}


KERNELS_OWN = "the kernel's own modules"
STACKS = {"distribution": KERNELS_OWN, "doca_ofed": "DOCA-OFED's modules"}


def _stack_items(view: View) -> Items:
    """The stack whose driver the next boot loads; or the loaded driver, if it is another one."""
    found = [
        view.items("rdma.driver_on_disk").get("folder", MISSING),
        view.items("rdma.driver_on_disk").get("version", MISSING),
        view.items("kernel.modules").get(DRIVER, MISSING),
    ]
    unread = [value for value in found if isinstance(value, Unread)]
    if unread:
        return {"": unread[0]}
    folder, on_disk, loaded = map(str, found)
    stack = {"kernel": KERNELS_OWN, "absent": f"no {DRIVER}"}.get(folder, STACKS["doca_ofed"])
    waits = stack == _stack(view) and waits_for_boot(loaded, on_disk)
    return {"": f"{stack}, but {DRIVER} {loaded} is loaded" if waits else stack}


def _waits(view: View, device: str) -> bool:
    return " is loaded" in str(_stack_items(view)[""])


def _stack(view: View) -> JsonValue:
    rdma = view.plan.spec.software.rdma
    return None if rdma is None else STACKS[rdma.stack]


RULES = (
    Rule(
        id="rdma.stack",
        claim="The RDMA modules of the declared stack are on disk, and they are loaded.",
        why=(
            "DKMS may fail to build DOCA-OFED's modules for a new kernel. The node then boots with "
            "the kernel's own modules, and its RDMA behaves differently from that of its peers."
        ),
        blind=(
            "Adapters of other vendors. A module in the initramfs. Another kernel that boots next. "
            "Two builds with the same version, or without one. Which modules DKMS has built: all "
            "that are not the kernel's count as DOCA-OFED's."
        ),
        source="modinfo(8); kernel documentation, ABI/testing/sysfs-module (version, srcversion)",
        reading="rdma.driver_on_disk",
        look=Look(_stack_items),
        expected=same(_stack),
        severity=WARNING,
        repair=by_role(
            "rdma",
            (
                f"{DEPLOY}; if it stays so, see dkms status and the log of the build on {{node}}, "
                "and install the headers of its kernel"
            ),
            pending=Pending(_waits, "The modules on disk are loaded at the next reboot.", REBOOT),
        ),
        applies=lambda view: is_declared(view.plan),
        explained_by=(
            *UNREAD_WITH_COUNT,
            *OTHER_KERNEL,
            Cause("rdma.driver"),
            Cause("package.present", device=WITH_MODULES),
        ),
    ),
    Rule(
        id="rdma.driver_on_disk",
        claim="The RDMA driver that the next boot loads is the same on all nodes of a class.",
        why=(
            "A node that got DOCA-OFED, or lost its modules with a new kernel, runs another driver "
            "than its peers after its next boot, without another change."
        ),
        blind=(
            "Adapters of other vendors. A module in the initramfs. Another kernel that boots next. "
            "The same wrong driver on all nodes."
        ),
        source="modinfo(8), dkms(8); NVIDIA, DOCA documentation: ofed_info -s",
        reading="rdma.driver_on_disk",
        look=Look(_driver_items),
        peers=Peers.CLASS,
        severity=WARNING,
        repair=by_hand(
            "on {node}: install the same RDMA packages as on its peers (dkms status shows failed "
            "builds), then reboot the node when it is idle"
        ),
        applies=has_rdma,
        explained_by=(
            *UNREAD_WITH_COUNT,
            *OTHER_KERNEL,
            Cause("rdma.driver"),
            Cause("rdma.stack"),
        ),
    ),
    _alike(
        id="rdma.acceleration",
        claim="All RoCE adapters of a hardware class have the same retransmission settings.",
        why=(
            "Adaptive retransmission and slow restart determine how long a lost packet delays a "
            "job. An adapter reset clears values that a script has set."
        ),
        blind="Nodes that have neither mlxreg nor mstreg.",
        source="NVIDIA, adaptive retransmission: parameters control (register ROCE_ACCL)",
        reading=ACCELERATION,
        look=Look(on_fabric(ACCELERATION), pick=of_map(_others), devices=DEVICES),
        expected=each(lambda view: judged(view, ACCELERATION)),
        severity=Severities(Severity.WARNING, unread=Severity.WARNING),
        repair=by_hand(
            "on {node}, at each boot: run mlxreg (or mstreg) -d PCI_ADDRESS --reg_name ROCE_ACCL "
            "--set with its peers' field values; PCI_ADDRESS is the address of {device}"
        ),
        explained_by=(
            *FOLLOWS_PORT,
            Cause("rdma.adaptive_routing", at=SAME_DEVICE, of=Effect(found=NOT_ASKED)),
            Cause("rdma.adaptive_routing", at=SAME_DEVICE, of=UNREAD),
        ),
    ),
    _alike(
        id="rdma.adaptive_routing",
        claim="All RoCE adapters of a hardware class have the same adaptive routing setting.",
        why=(
            "Without adaptive routing, all packets of a connection take one path. If that path is "
            "congested, collective operations wait."
        ),
        blind=(
            "Nodes that have neither mlxreg nor mstreg. InfiniBand fabrics, where the subnet "
            "manager sets adaptive routing (ibdiagnet -r shows it). A job's own setting "
            "(NCCL_IB_ADAPTIVE_ROUTING). Whether the switches use several paths."
        ),
        source="NVIDIA, adaptive retransmission: parameters control (register ROCE_ACCL)",
        reading=ACCELERATION,
        look=Look(on_fabric(ACCELERATION), pick=of_map(_routing), devices=DEVICES),
        expected=each(lambda view: judged(view, ACCELERATION)),
        severity=Severities(Severity.WARNING, unread=Severity.WARNING),
        repair=by_hand(
            "on {node}, at each boot: run mlxreg (or mstreg) -d PCI_ADDRESS --reg_name ROCE_ACCL "
            "--set adaptive_routing_forced_en=1 (0 for off) to set adaptive routing of {device} to "
            "{expected}; PCI_ADDRESS is the address of {device}"
        ),
        explained_by=FOLLOWS_PORT,
    ),
    _alike(
        id="rdma.ecn",
        claim="All nodes of a hardware class have the same RoCE congestion control (ECN) settings.",
        why=(
            "A port without congestion control takes bandwidth from other ports until the switch "
            "drops packets."
        ),
        blind="Congestion control parameters. Drivers that do not report the ECN state.",
        source="NVIDIA, DCQCN parameters for Linux: /sys/class/net/.../ecn",
        reading="rdma.ecn",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.ecn")),
        text=Text(lambda value: f"enabled per priority: {value}"),
        repair=by_hand(
            "on {node}, at each boot: write the values of its peers to the enable files in "
            "/sys/class/net/*/ecn/roce_np and roce_rp"
        ),
        explained_by=FOLLOWS_PORT,
    ),
    Rule(
        id="rdma.pci_control",
        claim=(
            "RDMA devices have the same maximum read request size and relaxed-ordering setting on "
            "all nodes of a hardware class."
        ),
        why=(
            "With small read requests, or without relaxed ordering, an adapter does not reach "
            "its full rate."
        ),
        blind="Relaxed ordering that an application requests for a memory region.",
        source="PCI Express Base Specification, Device Control register; linux/pci_regs.h",
        reading="rdma.pci_control",
        look=Look(devices=DEVICES),
        kind=Kind.MULTISET,
        expected=each(lambda view: judged(view, "rdma.pci_control")),
        peers=Peers.CLASS,
        text=Text(counted, detail=lambda view, device: device_by_device(view, "rdma.pci_control")),
        severity=WARNING,
        repair=by_hand(
            "on {node}: compare the PCIe settings in the BIOS with those of its peers, and look "
            "for a script that runs setpci at boot"
        ),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES, Cause("rdma.board"), *OTHER_MACHINE),
    ),
    _alike(
        id="rdma.pfc",
        claim="RoCE ports have the same PFC settings on all nodes of a hardware class.",
        why=(
            "Without PFC on the RoCE priority, a port drops packets under load. With PFC on a "
            "different priority, the port pauses other traffic instead."
        ),
        blind="Settings that only the vendor's tool shows. Settings of the switch port.",
        source="dcb-pfc(8)",
        reading="rdma.pfc",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.pfc")),
        repair=by_hand(
            "on {node}, at each boot: set PFC to match its peers (dcb pfc set dev, or mlnx_qos "
            "--pfc)"
        ),
        explained_by=FOLLOWS_PORT,
    ),
    _alike(
        id="rdma.priorities",
        claim="RoCE ports map packets to the same priorities on all nodes of a hardware class.",
        why=(
            "PFC does not protect packets with the wrong priority, so the node loses them under "
            "load."
        ),
        blind="The trust mode (PCP or DSCP), which only the vendor's tool shows.",
        source="dcb-app(8)",
        reading="rdma.priorities",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.priorities")),
        repair=by_hand(
            "on {node}: set the priorities to match its peers (dcb app replace dev, or mlnx_qos "
            "--dscp2prio)"
        ),
        explained_by=FOLLOWS_PORT,
    ),
    Rule(
        id="rdma.settings",
        claim="RDMA drivers have the same settings on all nodes of a hardware class.",
        why=(
            "Driver settings control flow steering, virtual functions and RoCE. A difference "
            "often shows only under load."
        ),
        blind=(
            "Settings that only the vendor's tool (mlxconfig) shows, and settings that the kernel "
            "does not expose. Nodes without devlink."
        ),
        source="devlink-dev(8); kernel documentation, networking/devlink/mlx5",
        reading="rdma.settings",
        look=Look(
            on_fabric("rdma.settings"),
            # As a list, so that findings can name the settings that differ.
            pick=of_map(lambda found: [f"{name}={value}" for name, value in sorted(found.items())]),
        ),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(words=only_difference),
        severity=WARNING,
        repair=by_hand(
            "on {node}, at each boot: set the driver settings to match its peers (devlink dev "
            "param set pci/PCI_ADDRESS); PCI_ADDRESS is the address of {device}"
        ),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_COUNT, *OTHER_KERNEL),
    ),
    _alike(
        id="rdma.traffic_class",
        claim="RoCE ports use the same traffic class on all nodes of a hardware class.",
        why="Switches put packets with the wrong traffic class into the wrong queue.",
        blind="Traffic classes that a job sets (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS).",
        source=(
            "NVIDIA OFED: tc/1/traffic_class; kernel documentation, ABI/testing/configfs-rdma_cm"
        ),
        reading="rdma.traffic_class",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.traffic_class")),
        repair=by_hand(
            "on {node}, at each boot: set traffic_class of {device} and default_roce_tos to match "
            "its peers"
        ),
        explained_by=FOLLOWS_PORT,
    ),
)
