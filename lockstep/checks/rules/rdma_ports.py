"""Rules about RDMA ports: state, rate, partitions and error counters."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import (
    ERROR,
    SAME_DEVICE,
    WARNING,
    Cause,
    Kind,
    Local,
    Look,
    OnNode,
    Peers,
    Rule,
    Severities,
    Text,
    by_hand,
    each,
    same_device,
)
from lockstep.checks.rules.rdma import (
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
    on_fabric,
)
from lockstep.node.check.judge import Judgement
from lockstep.probe.record import MISSING, Unread

LINK_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet", "none": "Ethernet"}


def _port_state_items(view: View) -> Items:
    physical = view.items("rdma.phys_state")
    items: Items = {}
    for port, state in of_the_fabric(view, "rdma.state").items():
        link = physical.get(port, MISSING)
        plain = state == "ACTIVE" or isinstance(state, Unread) or isinstance(link, Unread)
        items[port] = state if plain else f"{state} ({link})"
    return items


def _gbit(text: JsonValue) -> Value:
    match = re.match(r"([\d.]+) Gb/sec", str(text))
    return (
        float(match.group(1)) if match else Unread(unread=f"the value is not a rate: {text!r:.60}")
    )


def _declared(view: View) -> JsonValue:
    speed = view.plan.hardware.hardware.nics.speed_gbit
    return None if speed is None else [speed] * len(of_the_fabric(view, "rdma.rate"))


def _rate_on_node(view: View) -> Iterator[Judgement]:
    """Yield a check of the port rate, or nothing if the hardware class declares no rate."""
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
    """Return a rule about an error counter of RDMA ports.

    ``explained_by`` lists the rules whose findings on the same port explain those of this rule.
    """
    not_counted = "Adapters without this counter. Events before the first record after a boot."
    return Rule(
        id=reading,
        claim=claim,
        why=why,
        blind=f"{not_counted} {blind}".strip(),
        source=source,
        reading=reading,
        look=Look(on_fabric(reading)),
        kind=Kind.GROWTH,
        tolerance=tolerance,
        text=Text(lambda value: f"{value} {unit}"),
        severity=severity,
        repair=by_hand(repair),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, *same_device(*explained_by)),
    )


RULES = (
    _counter(
        "rdma.ack_timeouts",
        "timeouts",
        claim="RDMA ports have few ACK timeouts.",
        why="A connection waits for an ACK that does not arrive, usually because packets are lost.",
        blind="Whether packets were lost or the peer went down, since both cause timeouts.",
        source="NVIDIA, understanding mlx5 Linux counters (local_ack_timeout_err)",
        repair=(
            "compare rdma.errors and rdma.priorities of {device} on {node} with those of its "
            "peers, then check the switch"
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
        why="When the fabric is congested, a port drops packets that it cannot send in time.",
        source="InfiniBand Architecture Specification, PortCounters.PortXmitDiscards",
        repair=(
            "on {node}: check the switch port of {device}, and look for congestion in the fabric"
        ),
        tolerance=100.0,
        explained_by=("rdma.link_downed",),
    ),
    _counter(
        "rdma.errors",
        "errors",
        claim="RDMA ports have few link errors.",
        why="A dirty or bent cable corrupts packets, which are then sent again.",
        blind="Errors after a counter has reached its maximum.",
        source=(
            "ibqueryerrors(8), thresholds; kernel documentation, "
            "ABI/stable/sysfs-class-infiniband (counters)"
        ),
        repair="on {node}: clean or replace the cable and the transceiver of {device}",
        tolerance=10.0,
        explained_by=("rdma.link_downed",),
    ),
    _counter(
        "rdma.link_downed",
        "link failures",
        claim="No RDMA link has gone down since the last record.",
        why="When a link goes down, jobs that use it fail or stall for seconds.",
        source="InfiniBand Architecture Specification, PortCounters.LinkDownedCounter",
        repair=(
            "on {node}: clean or replace the cable and the transceiver of {device}, and check the "
            "switch port"
        ),
        severity=ERROR,
    ),
    _counter(
        "rdma.sequence_errors",
        "gaps",
        claim="RDMA ports have few packet sequence errors.",
        why="A gap in the sequence means a lost packet, and all later packets are sent again.",
        blind="The out_of_sequence counter, which also grows with adaptive routing.",
        source="NVIDIA, understanding mlx5 Linux counters (packet_seq_err, implied_nak_seq_err)",
        repair=(
            "on {node}: compare rdma.errors, PFC and adaptive routing of {device} with those of "
            "its peers"
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
        why="Nodes on an InfiniBand fabric cannot reach an adapter that is in Ethernet mode.",
        blind="The setting of the switch port.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.link_layer",
        look=Look(devices=DEVICES),
        expected=each(
            lambda view: judged(
                view, "rdma.link_layer", LINK_LAYERS[view.plan.hardware.hardware.nics.rdma]
            )
        ),
        repair=by_hand(
            "on {node}: set the port type of {device} (mlxconfig -d {device} set LINK_TYPE_P1=1 "
            "for InfiniBand, 2 for Ethernet), then power-cycle the node"
        ),
        applies=has_rdma,
        explained_by=UNREAD_WITH_COUNT,
    ),
    alike(
        id="rdma.pcie_link",
        claim="The PCIe link of every RDMA device runs at full speed and width.",
        why=(
            "An adapter with half its PCIe lanes reports the full network rate, but can move only "
            "half as much data to memory."
        ),
        blind="Links above a PCIe switch. Slots that have too few lanes on all nodes.",
        source=(
            "kernel documentation, ABI/testing/sysfs-bus-pci (current_link_speed, max_link_width)"
        ),
        reading="rdma.pcie",
        expected=each(lambda view: judged(view, "rdma.pcie"), default="rdma.pcie_most"),
        repair=by_hand(
            "drain {node} and reseat {device}; check the settings of its slot in the BIOS"
        ),
        explained_by=(*UNREAD_WITH_COUNT,),
    ),
    alike(
        id="rdma.pkeys",
        claim="RDMA ports are in the same partitions on all nodes of a hardware class.",
        why=(
            "A port that is not in a partition, or is only a limited member of it, cannot reach "
            "some of its peers."
        ),
        blind="The partition that a job selects.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband (pkeys)",
        reading="rdma.pkeys",
        expected=each(lambda view: judged(view, "rdma.pkeys")),
        repair=by_hand(
            "add {device} of {node} to the partitions of its peers in the subnet manager's "
            "partitions.conf"
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
        why="If a port is down, jobs on the node cannot use its rail.",
        blind="A link that goes down and comes back up between two checks.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.state",
        look=Look(_port_state_items, devices=DEVICES),
        expected=each(lambda view: judged(view, "rdma.state", "ACTIVE")),
        repair=by_hand(
            "on {node}: check the cable and the switch port of {device}; on InfiniBand, check the "
            "subnet manager; on Ethernet, bring its interface up (ip link)"
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
        claim=(
            "RDMA ports run at the declared rate or, if none is declared, at the rates of the "
            "node's peers."
        ),
        why=(
            "A link with half its lanes, or with half the speed per lane, halves the bandwidth of "
            "one rail, and collective operations wait for that rail."
        ),
        blind="A low rate on all nodes, if no rate is declared. Congestion. Link errors.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband",
        reading="rdma.rate",
        look=Look(on_fabric("rdma.rate"), pick=_gbit, devices=DEVICES),
        kind=Kind.MULTISET,
        expected=each(lambda view: judged(view, "rdma.rate"), common=_declared),
        peers=Peers.CLASS,
        text=Text(
            lambda values: f"{counted(values)} Gbit/s",
            detail=lambda view, device: device_by_device(view, "rdma.rate"),
        ),
        repair=by_hand(
            (
                "on {node}: clean or replace the cable or the transceiver of the port whose rate "
                "is wrong (see the detail), check the switch port, and reset the adapter"
            ),
            peers=(
                "on {node}: clean or replace the cable or the transceiver of the port whose rate "
                "is wrong (see the detail), check the switch port, and reset the adapter"
            ),
        ),
        applies=has_rdma,
        on_node=OnNode(Local.HEALTH, _rate_on_node),
        explained_by=(
            *(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES),
            # A port that is down, or has the wrong link layer, reports a rate that it does not use.
            *(Cause("rdma.port_state"), Cause("rdma.link_layer")),
        ),
    ),
    alike(
        id="rdma.subnet_manager",
        claim="RDMA ports have the same subnet manager on all nodes of a hardware class.",
        why="A port with a different subnet manager is on a different fabric.",
        blind="Whether the subnet manager responds. Its settings, such as adaptive routing.",
        source="kernel documentation, ABI/stable/sysfs-class-infiniband (sm_lid)",
        reading="rdma.sm_lid",
        expected=each(lambda view: judged(view, "rdma.sm_lid")),
        text=Text(lambda value: f"subnet manager at LID {value}"),
        repair=by_hand(
            "on {node}: run sminfo; check whether the cable of {device} leads to another fabric"
        ),
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("rdma.port_state", at=SAME_DEVICE),
            Cause("rdma.link_layer", at=SAME_DEVICE),
        ),
    ),
)
