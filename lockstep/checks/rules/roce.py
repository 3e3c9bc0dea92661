"""Rules about the settings of RoCE adapters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.context import Items, Value, View
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Peers,
    Rule,
    Severities,
    Text,
    each,
)
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE, only_difference
from lockstep.checks.rules._rdma import (
    DEVICES,
    FOLLOWS_COUNT,
    FOLLOWS_NAMES,
    UNREAD_WITH_COUNT,
    counted,
    device_by_device,
    has_rdma,
    judged,
    of_the_fabric,
)
from lockstep.report import Severity

ACCELERATION = "rdma.acceleration"
"""The register ROCE_ACCL of each adapter; empty where no tool could ask for it."""
ADAPTIVE_ROUTING = "adaptive_routing_forced_en"
NOT_ASKED = "unknown: no mlxreg or mstreg, or an adapter without the register"

FOLLOWS_PORT = (
    *UNREAD_WITH_COUNT,
    Cause("rdma.link_layer", at=SAME_DEVICE),
    Cause("rdma.port_state", at=SAME_DEVICE),
)


def has_roce(view: View) -> bool:
    """Apply to the nodes whose fabric is Ethernet."""
    return has_rdma(view) and view.plan.hardware.hardware.nics.rdma == "roce"


def of_register(view: View, shown: Callable[[dict[str, JsonValue]], Value]) -> Items:
    """Return the shown part of the register ROCE_ACCL of each adapter of the fabric."""
    return {
        device: shown(fields) if isinstance(fields, dict) else fields
        for device, fields in of_the_fabric(view, ACCELERATION).items()
    }


def _others(fields: dict[str, JsonValue]) -> Value:
    others = sorted(f"{name} {state}" for name, state in fields.items() if name != ADAPTIVE_ROUTING)
    return ", ".join(others) or NOT_ASKED


def _routing(fields: dict[str, JsonValue]) -> Value:
    words: dict[object, Value] = {0: "off", 1: "on", None: NOT_ASKED}
    return words.get(fields.get(ADAPTIVE_ROUTING), NOT_ASKED)


def _settings_items(view: View) -> Items:
    """Return the settings as words, so that findings can name those that differ."""
    return {
        device: [f"{name}={value}" for name, value in sorted(found.items())]
        if isinstance(found, dict)
        else found
        for device, found in of_the_fabric(view, "rdma.settings").items()
    }


_alike = partial(Rule, kind=Kind.SLOTS, peers=Peers.CLASS, applies=has_roce)
"""Settings that are compared with the peers."""

RULES = (
    _alike(
        id="rdma.acceleration",
        claim="RoCE adapters have the same retransmission settings.",
        why=(
            "Adaptive retransmission and slow restart decide what a lost packet costs. A reset "
            "of the adapter loses the settings of a script."
        ),
        blind="Nodes without mlxreg and mstreg.",
        source="NVIDIA, adaptive retransmission: parameters control (register ROCE_ACCL)",
        reading=ACCELERATION,
        look=Look(lambda view: of_register(view, _others), devices=DEVICES),
        expected=each(lambda view: judged(view, ACCELERATION)),
        severity=Severities(Severity.WARNING, unread=Severity.WARNING),
        repair=by_hand(
            "on {node}, at each boot: set the fields of its peers with mlxreg (or mstreg) "
            "-d PCI_ADDRESS --reg_name ROCE_ACCL --set; PCI_ADDRESS is that of {device}"
        ),
        explained_by=(
            *FOLLOWS_PORT,
            Cause("rdma.adaptive_routing", at=SAME_DEVICE, of=Effect(found=NOT_ASKED)),
            Cause("rdma.adaptive_routing", at=SAME_DEVICE, of=UNREAD),
        ),
    ),
    _alike(
        id="rdma.adaptive_routing",
        claim="Adaptive routing is on or off on all RoCE adapters of a hardware class.",
        why=(
            "Without it a node's packets stay on one path and share one link; collective "
            "operations wait."
        ),
        blind=(
            "Nodes without mlxreg and mstreg. InfiniBand, where the subnet manager decides and "
            "no node shows it (ibdiagnet -r does). What a job asks for "
            "(NCCL_IB_ADAPTIVE_ROUTING). Whether the switches spread packets."
        ),
        source="NVIDIA, adaptive retransmission: parameters control (register ROCE_ACCL)",
        reading=ACCELERATION,
        look=Look(lambda view: of_register(view, _routing), devices=DEVICES),
        expected=each(lambda view: judged(view, ACCELERATION)),
        severity=Severities(Severity.WARNING, unread=Severity.WARNING),
        repair=by_hand(
            "on {node}, at each boot: mlxreg (or mstreg) -d PCI_ADDRESS --reg_name "
            "ROCE_ACCL --set adaptive_routing_forced_en=1 (0 for off), so that {device} is "
            "{expected}; PCI_ADDRESS is that of {device}"
        ),
        explained_by=FOLLOWS_PORT,
    ),
    _alike(
        id="rdma.ecn",
        claim="RoCE congestion control (ECN) is equal in a hardware class.",
        why=(
            "A port without congestion control takes the bandwidth of others until the switch "
            "drops packets."
        ),
        blind="Parameters of the congestion control. Drivers that do not show it.",
        source="NVIDIA, DCQCN parameters for Linux: /sys/class/net/.../ecn",
        reading="rdma.ecn",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.ecn")),
        text=Text(lambda value: f"enabled by priority: {value}"),
        repair=by_hand(
            "on {node}, at each boot: write /sys/class/net/*/ecn/roce_np and roce_rp "
            "enable as on its peers"
        ),
        explained_by=FOLLOWS_PORT,
    ),
    Rule(
        id="rdma.pci_control",
        claim="RDMA devices have the same PCIe read size and ordering in a hardware class.",
        why=(
            "With short read requests, or without relaxed ordering, an adapter does not reach "
            "its rate."
        ),
        blind="Ordering that a driver sets for a memory region.",
        source="PCI Express Base Specification, Device Control register; linux/pci_regs.h",
        reading="rdma.pci_control",
        look=Look(devices=DEVICES),
        kind=Kind.MULTISET,
        expected=each(lambda view: judged(view, "rdma.pci_control")),
        peers=Peers.CLASS,
        text=Text(counted, detail=lambda view, device: device_by_device(view, "rdma.pci_control")),
        severity=WARNING,
        repair=by_hand(
            "on {node}: compare the PCIe settings of the BIOS, and look for setpci at boot"
        ),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES, Cause("rdma.board"), *OTHER_MACHINE),
    ),
    _alike(
        id="rdma.pfc",
        claim="RoCE ports pause the same priorities (PFC) in a hardware class.",
        why=(
            "Without PFC on its priority a port loses packets under load. With PFC on a wrong "
            "one it stops other traffic."
        ),
        blind="Settings that only the vendor's tool shows. The switch port.",
        source="dcb-pfc(8)",
        reading="rdma.pfc",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.pfc")),
        repair=by_hand(
            "on {node}, at each boot: dcb pfc set dev (or mlnx_qos --pfc) as on its peers"
        ),
        explained_by=FOLLOWS_PORT,
    ),
    _alike(
        id="rdma.priorities",
        claim="RoCE ports map packets to the same priorities in a hardware class.",
        why="Packets in the wrong priority are not protected from loss, on this node only.",
        blind="Trust in PCP or DSCP, which only the vendor's tool shows.",
        source="dcb-app(8)",
        reading="rdma.priorities",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.priorities")),
        repair=by_hand("on {node}: dcb app replace dev (or mlnx_qos --dscp2prio) as on its peers"),
        explained_by=FOLLOWS_PORT,
    ),
    Rule(
        id="rdma.settings",
        claim="RDMA drivers have the same settings in a hardware class.",
        why=(
            "Flow steering, virtual functions and RoCE are driver settings. One adapter with "
            "other settings behaves differently, under load only."
        ),
        blind=(
            "Settings that only the vendor's tool shows (mlxconfig), and those that a kernel "
            "does not offer. Nodes without the tool devlink."
        ),
        source="devlink-dev(8); kernel documentation, networking/devlink/mlx5",
        reading="rdma.settings",
        look=Look(_settings_items),
        kind=Kind.SLOTS,
        peers=Peers.CLASS,
        text=Text(words=only_difference),
        severity=WARNING,
        repair=by_hand(
            "on {node}, at each boot: devlink dev param set pci/PCI_ADDRESS as on its "
            "peers; PCI_ADDRESS is that of {device}"
        ),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, *FOLLOWS_COUNT, *OTHER_KERNEL),
    ),
    _alike(
        id="rdma.traffic_class",
        claim="RoCE ports use the same traffic class in a hardware class.",
        why="Switches put packets without the mark into the wrong queue.",
        blind="Marks that a job sets (NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS).",
        source=(
            "NVIDIA OFED: tc/1/traffic_class; kernel documentation, ABI/testing/configfs-rdma_cm"
        ),
        reading="rdma.traffic_class",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.traffic_class")),
        repair=by_hand(
            "on {node}, at each boot: set traffic_class of {device} and default_roce_tos "
            "as on its peers"
        ),
        explained_by=FOLLOWS_PORT,
    ),
)
