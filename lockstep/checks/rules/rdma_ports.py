"""Rules about RDMA ports: state, rate, partitions, error counters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, Cause, causes
from lockstep.checks.context import Items, View
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    ERROR,
    WARNING,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Severities,
    Text,
    each,
)
from lockstep.checks.rules._rdma import (
    DEVICES,
    FOLLOWS_NAMES,
    UNREAD_WITH_COUNT,
    alike,
    counted,
    device_by_device,
    has_rdma,
    judged,
    named,
    of_the_fabric,
)
from lockstep.node.check.judge import Judgement
from lockstep.probe.record import MISSING, Unread


def _link_layer_expected(view: View) -> str:
    nics = view.plan.hardware.hardware.nics
    return "InfiniBand" if nics.rdma == "infiniband" else "Ethernet"


def _port_state_items(view: View) -> Items:
    physical = view.items("rdma.phys_state")
    items: Items = {}
    for port, state in of_the_fabric(view, "rdma.state").items():
        link = physical.get(port, MISSING)
        if isinstance(state, Unread) or state == "ACTIVE":
            items[port] = state
        else:
            items[port] = str(state) if isinstance(link, Unread) else f"{state} ({link})"
    return items


def _rate_items(view: View) -> Items:
    return {
        port: value if isinstance(value, Unread) else _gbit(value)
        for port, value in of_the_fabric(view, "rdma.rate").items()
    }


def _gbit(text: JsonValue) -> float | Unread:
    match = re.match(r"([\d.]+) Gb/sec", str(text))
    return float(match.group(1)) if match else Unread(unread=f"not a rate: {text!r:.60}")


def _declared(view: View) -> JsonValue:
    speed = view.plan.hardware.hardware.nics.speed_gbit
    return None if speed is None else [speed] * len(of_the_fabric(view, "rdma.rate"))


def _rate_on_node(view: View) -> Iterator[Judgement]:
    """Yield nothing where no rate is declared: the peers decide then."""
    speed = view.plan.hardware.hardware.nics.speed_gbit
    if speed is not None:
        yield Judgement(
            ("rdma.rate",), only=named(view), number=True, expected=speed, shown="{} Gbit/s"
        )


def _counter(
    reading: str,
    unit: str,
    *,
    claim: str,
    why: str,
    source: str,
    repair: str,
    blind: str = "",
    tolerance: float = 0.0,
    severity: Severities = WARNING,
    explained_by: tuple[str, ...] = (),
) -> Rule:
    """Return a rule about an error counter of the ports; ``explained_by``: on the same port."""
    not_counted = "Adapters without this counter. The time before the first record of this boot."
    return Rule(
        id=reading,
        claim=claim,
        why=why,
        blind=f"{not_counted} {blind}".strip(),
        source=source,
        reading=reading,
        look=Look(lambda view: of_the_fabric(view, reading)),
        kind=Kind.GROWTH,
        tolerance=tolerance,
        text=Text(lambda value: f"{value} {unit}"),
        severity=severity,
        repair=by_hand(repair),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, *causes(*explained_by, at=SAME_DEVICE)),
    )


RULES = (
    _counter(
        "rdma.ack_timeouts",
        "time-outs",
        claim="RDMA ports have few ACK timeouts.",
        why="Each one is a time-out of a whole connection: packets get lost.",
        blind="A peer that went down causes them as well.",
        source="NVIDIA, understanding mlx5 Linux counters (local_ack_timeout_err)",
        repair=(
            "on {node}: compare rdma.errors and the priorities of {device} with its peers, "
            "then the switch"
        ),
        tolerance=100.0,
        explained_by=(
            "rdma.link_downed",
            "rdma.errors",
        ),
    ),
    _counter(
        "rdma.discards",
        "discards",
        claim="RDMA ports discard few packets.",
        why="A port that cannot send in time drops packets: the fabric behind it is congested.",
        source="InfiniBand Architecture Specification, PortCounters.PortXmitDiscards",
        repair="check the switch port of {device} of {node}, and the congestion behind it",
        tolerance=100.0,
        explained_by=("rdma.link_downed",),
    ),
    _counter(
        "rdma.errors",
        "errors",
        claim="RDMA ports have few link errors.",
        why="A dirty or bent cable: each error is a packet that is sent again.",
        blind="Counters that reached their maximum.",
        source=(
            "ibqueryerrors(8), its thresholds; kernel documentation, "
            "ABI/stable/sysfs-class-infiniband (counters)"
        ),
        repair="on {node}: clean or replace cable and transceiver of {device}",
        tolerance=10.0,
        explained_by=("rdma.link_downed",),
    ),
    _counter(
        "rdma.link_downed",
        "times down",
        claim="RDMA links do not go down.",
        why="Each time the jobs on that port end or lose seconds.",
        source="InfiniBand Architecture Specification, PortCounters.LinkDownedCounter",
        repair=(
            "on {node}: clean or replace cable and transceiver of {device}, and check the "
            "switch port"
        ),
        severity=ERROR,
    ),
    _counter(
        "rdma.sequence_errors",
        "gaps",
        claim="RDMA ports have few packet sequence errors.",
        why="A gap in the sequence is a lost packet: all later packets are sent again.",
        blind="out_of_sequence is not counted: with adaptive routing it is normal.",
        source="NVIDIA, understanding mlx5 Linux counters (packet_seq_err, implied_nak_seq_err)",
        repair=(
            "on {node}: compare rdma.errors, PFC and adaptive routing of {device} with its peers"
        ),
        tolerance=1000.0,
        explained_by=(
            "rdma.link_downed",
            "rdma.errors",
        ),
    ),
    Rule(
        id="rdma.link_layer",
        claim="Every RDMA port has the declared link layer.",
        why="An adapter in Ethernet mode cannot be reached on an InfiniBand fabric.",
        blind="The setting of the switch port.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.link_layer",
        look=Look(devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.link_layer", _link_layer_expected(view))),
        repair=by_hand(
            "set the port type of {device} in {node} (mlxconfig -d {device} set LINK_TYPE_P1=1 "
            "for InfiniBand, 2 for Ethernet), then power-cycle the node"
        ),
        applies=has_rdma,
        explained_by=UNREAD_WITH_COUNT,
    ),
    alike(
        id="rdma.pcie_link",
        claim="Every RDMA device uses its full PCIe link.",
        why=(
            "An adapter with half its lanes has the full rate on the wire and half of it into "
            "memory."
        ),
        blind=(
            "Links above a switch. A slot that is narrower than its adapter on purpose gives "
            "no finding."
        ),
        source=(
            "kernel documentation, ABI/testing/sysfs-bus-pci (current_link_speed, max_link_width)"
        ),
        reading="rdma.pcie",
        expected=each(lambda view: judged(view, "rdma.pcie"), default="rdma.pcie_most"),
        repair=by_hand("drain {node} and reseat {device}; compare the slot's settings in the BIOS"),
        explained_by=(*UNREAD_WITH_COUNT,),
    ),
    alike(
        id="rdma.pkeys",
        claim="RDMA ports are in the same partitions in a hardware class.",
        why="A port outside of a partition, or a limited member of it, cannot reach its peers.",
        blind="Partitions that a job asks for itself.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband (pkeys)",
        reading="rdma.pkeys",
        expected=each(lambda view: judged(view, "rdma.pkeys")),
        repair=by_hand(
            "add {device} of {node} to the partitions of its peers in the subnet manager "
            "(partitions.conf)"
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("rdma.port_state", at=SAME_DEVICE),
            Cause("rdma.link_layer", at=SAME_DEVICE),
        ),
    ),
    Rule(
        id="rdma.port_state",
        claim="Every RDMA port is active.",
        why="A port that is down takes its rail from every job on the node.",
        blind="A link that goes down and up between two checks.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.state",
        look=Look(_port_state_items, devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.state", "ACTIVE")),
        repair=by_hand(
            "on {node}: check cable and switch port of {device}; InfiniBand: check the subnet "
            "manager; Ethernet: set its interface up (ip link)"
        ),
        applies=has_rdma,
        on_node=OnNode(
            Local.JOBS,
            lambda view: [Judgement(("rdma.state",), only=named(view), expected="ACTIVE")],
        ),
        explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.link_layer", at=SAME_DEVICE)),
    ),
    Rule(
        id="rdma.rate",
        claim="RDMA ports have the declared rates, and otherwise those of their peers.",
        why=(
            "A link with half its lanes, or at a lower generation, halves one rail, and the "
            "job's collective operations wait for it."
        ),
        blind="A rate that is too low on every node and not declared. Congestion. Link errors.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.rate",
        look=Look(_rate_items, devices=DEVICES),
        kind=Kind.MULTISET,
        expected=each(lambda view: judged(view, "rdma.rate"), common=_declared),
        peers=Peers.CLASS,
        text=Text(
            lambda values: f"{counted(values)} Gbit/s",
            detail=lambda view, device: device_by_device(view, "rdma.rate"),
        ),
        repair=by_hand(
            (
                "on {node}: clean or replace cable or transceiver of the port that the detail "
                "names, check the switch port, reset the adapter"
            ),
            peers=(
                "on {node}: clean or replace cable or transceiver of the port that the detail "
                "names, check the switch port, reset the adapter"
            ),
        ),
        applies=has_rdma,
        on_node=OnNode(Local.HEALTH, _rate_on_node),
        explained_by=(
            *(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES),
            # A port that is down, or has another link layer, shows a rate that it does not use.
            *(Cause("rdma.port_state"), Cause("rdma.link_layer")),
        ),
    ),
    alike(
        id="rdma.subnet_manager",
        claim="RDMA ports have the same subnet manager in a hardware class.",
        why="A port of another subnet manager is on another fabric.",
        blind="Whether the subnet manager answers. Its own settings, such as adaptive routing.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband (sm_lid)",
        reading="rdma.sm_lid",
        expected=each(lambda view: judged(view, "rdma.sm_lid")),
        text=Text(lambda value: f"subnet manager at LID {value}"),
        repair=by_hand(
            "on {node}: run sminfo; check the cable of {device}, which may lead to another fabric"
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("rdma.port_state", at=SAME_DEVICE),
            Cause("rdma.link_layer", at=SAME_DEVICE),
        ),
    ),
)
