"""Rules: rdma_counters."""

from __future__ import annotations

from lockstep.checks.cause import SAME_DEVICE, Cause
from lockstep.checks.repair import (
    by_hand,
)
from lockstep.checks.rule import (
    WARNING,
    Kind,
    Look,
    Rule,
    Text,
)
from lockstep.checks.rules._rdma import UNREAD_WITH_COUNT, has_rdma, of_the_fabric

RULES = (
    Rule(
        id="rdma.ack_timeouts",
        claim="RDMA ports have few ACK timeouts.",
        why="Each one is a time-out of a whole connection: packets get lost.",
        blind=(
            "Adapters without this counter. The time before the first record of this boot. A "
            "peer that went down causes them as well."
        ),
        source="NVIDIA, understanding mlx5 Linux counters (local_ack_timeout_err)",
        reading="rdma.ack_timeouts",
        look=Look(lambda view: of_the_fabric(view, "rdma.ack_timeouts")),
        kind=Kind.GROWTH,
        tolerance=100.0,
        text=Text(lambda value: f"{value} time-outs"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: compare rdma.errors and the priorities of {device} with its peers, "
            "then the switch"
        ),
        applies=has_rdma,
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("rdma.link_downed", at=SAME_DEVICE),
            Cause("rdma.errors", at=SAME_DEVICE),
        ),
    ),
    Rule(
        id="rdma.discards",
        claim="RDMA ports discard few packets.",
        why="A port that cannot send in time drops packets: the fabric behind it is congested.",
        blind="Adapters without this counter. The time before the first record of this boot.",
        source="InfiniBand Architecture Specification, PortCounters.PortXmitDiscards",
        reading="rdma.discards",
        look=Look(lambda view: of_the_fabric(view, "rdma.discards")),
        kind=Kind.GROWTH,
        tolerance=100.0,
        text=Text(lambda value: f"{value} discards"),
        severity=WARNING,
        repair=by_hand("check the switch port of {device} of {node}, and the congestion behind it"),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.link_downed", at=SAME_DEVICE)),
    ),
    Rule(
        id="rdma.errors",
        claim="RDMA ports have few link errors.",
        why="A dirty or bent cable: each error is a packet that is sent again.",
        blind=(
            "Adapters without this counter. The time before the first record of this boot. "
            "Counters that reached their maximum."
        ),
        source=(
            "ibqueryerrors(8), its thresholds; kernel documentation, "
            "ABI/stable/sysfs-class-infiniband (counters)"
        ),
        reading="rdma.errors",
        look=Look(lambda view: of_the_fabric(view, "rdma.errors")),
        kind=Kind.GROWTH,
        tolerance=10.0,
        text=Text(lambda value: f"{value} errors"),
        severity=WARNING,
        repair=by_hand("on {node}: clean or replace cable and transceiver of {device}"),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT, Cause("rdma.link_downed", at=SAME_DEVICE)),
    ),
    Rule(
        id="rdma.link_downed",
        claim="RDMA links do not go down.",
        why="Each time the jobs on that port end or lose seconds.",
        blind="Adapters without this counter. The time before the first record of this boot.",
        source="InfiniBand Architecture Specification, PortCounters.LinkDownedCounter",
        reading="rdma.link_downed",
        look=Look(lambda view: of_the_fabric(view, "rdma.link_downed")),
        kind=Kind.GROWTH,
        text=Text(lambda value: f"{value} times down"),
        repair=by_hand(
            "on {node}: clean or replace cable and transceiver of {device}, and check the "
            "switch port"
        ),
        applies=has_rdma,
        explained_by=(*UNREAD_WITH_COUNT,),
    ),
    Rule(
        id="rdma.sequence_errors",
        claim="RDMA ports have few packet sequence errors.",
        why="A gap in the sequence is a lost packet: all later packets are sent again.",
        blind=(
            "Adapters without this counter. The time before the first record of this boot. "
            "out_of_sequence is not counted: with adaptive routing it is normal."
        ),
        source="NVIDIA, understanding mlx5 Linux counters (packet_seq_err, implied_nak_seq_err)",
        reading="rdma.sequence_errors",
        look=Look(lambda view: of_the_fabric(view, "rdma.sequence_errors")),
        kind=Kind.GROWTH,
        tolerance=1000.0,
        text=Text(lambda value: f"{value} gaps"),
        severity=WARNING,
        repair=by_hand(
            "on {node}: compare rdma.errors, PFC and adaptive routing of {device} with its peers"
        ),
        applies=has_rdma,
        explained_by=(
            *UNREAD_WITH_COUNT,
            Cause("rdma.link_downed", at=SAME_DEVICE),
            Cause("rdma.errors", at=SAME_DEVICE),
        ),
    ),
)
