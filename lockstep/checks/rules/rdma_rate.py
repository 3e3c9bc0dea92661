"""The RDMA ports of a node have the declared rates, or those of its peers.

Why      A link that trained with half its lanes, or at a lower generation, halves one rail, and
         the collective operations of the whole job wait for it.
Blind    A rate that is too low on every node and not declared; congestion; errors on the link.
"""

import re
from collections.abc import Iterator

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Kind, Local, Peers, Rule
from lockstep.checks.rules._rdma import (
    DEVICES,
    FOLLOWS_NAMES,
    UNREAD_WITH_COUNT,
    counted,
    device_by_device,
    has_rdma,
    judged,
    named,
    of_the_fabric,
)
from lockstep.node.check.judge import Judgement
from lockstep.probe.record import Unread

READING = "rdma.rate"


def _look(view: View) -> Items:
    return {
        port: value if isinstance(value, Unread) else _gbit(value)
        for port, value in of_the_fabric(view, READING).items()
    }


def _gbit(text: JsonValue) -> float | Unread:
    match = re.match(r"([\d.]+) Gb/sec", str(text))
    return float(match.group(1)) if match else Unread(unread=f"not a rate: {text!r:.60}")


def _declared(view: View) -> JsonValue:
    speed = view.plan.hardware.hardware.nics.speed_gbit
    return None if speed is None else [speed] * len(of_the_fabric(view, READING))


def _on_node(view: View) -> Iterator[Judgement]:
    """Yield nothing where no rate is declared: the peers say it then."""
    speed = view.plan.hardware.hardware.nics.speed_gbit
    if speed is not None:
        yield Judgement(
            (READING,), only=named(view), number=True, expected=speed, shown="{} Gbit/s"
        )


RULE = Rule(
    id="rdma.rate",
    title="the RDMA ports run at their full rate",
    reading=READING,
    kind=Kind.MULTISET,
    look=_look,
    devices=DEVICES,
    expected_each=lambda view: judged(view, READING),
    expected=_declared,
    peers=Peers.CLASS,
    show=lambda values: f"{counted(values)} Gbit/s",
    detail=lambda view, device: device_by_device(view, READING),
    applies=has_rdma,
    local=Local.HEALTH,
    on_node=_on_node,
    repair="in {node}: clean or replace the cable or transceiver of the port that the detail "
    "shows, look at the switch port, reset the adapter",
    repair_peers="in {node}: clean or replace the cable or transceiver of the port that the detail "
    "shows, look at the switch port, reset the adapter",
    explained_by=(
        *(*UNREAD_WITH_COUNT, *FOLLOWS_NAMES),
        # A port that is down, or speaks another protocol, shows the rate that it is not at.
        *(Cause("rdma.port_state"), Cause("rdma.link_layer")),
    ),
    source="kernel documentation, ABI/stable/sysfs-class-infiniband",
)
