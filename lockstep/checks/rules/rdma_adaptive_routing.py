"""The RoCE adapters let the fabric spread packets, or not, alike.

Why      Where one node's packets stay on one path they meet on one link, and the collective waits.
Blind    Nodes where neither mlxreg nor mstreg is installed. InfiniBand: there the subnet manager
         decides, and no node shows it (ibdiagnet -r does). What a job asks for
         (NCCL_IB_ADAPTIVE_ROUTING). Whether the switches spread anything.
"""

from pydantic import JsonValue

from lockstep.checks.context import Value
from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._rdma import DEVICES, judged
from lockstep.checks.rules._roce import (
    ACCELERATION,
    ADAPTIVE_ROUTING,
    FOLLOWS_PORT,
    NOT_ASKED,
    has_roce,
    of_register,
)
from lockstep.report import Severity


def _routing(fields: dict[str, JsonValue]) -> Value:
    words: dict[object, Value] = {0: "off", 1: "on", None: NOT_ASKED}
    return words.get(fields.get(ADAPTIVE_ROUTING), NOT_ASKED)


RULE = Rule(
    id="rdma.adaptive_routing",
    title="adaptive routing is on or off alike",
    reading=ACCELERATION,
    look=lambda view: of_register(view, _routing),
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, ACCELERATION),
    peers=Peers.CLASS,
    unread=Severity.WARNING,
    applies=has_roce,
    repair="on {node}, at each boot: mlxreg (or mstreg) -d the PCI address of {device} --reg_name "
    "ROCE_ACCL --set adaptive_routing_forced_en=1 (0 for off), so that it is {expected}",
    explained_by=FOLLOWS_PORT,
    source="NVIDIA, adaptive retransmission: parameters control (register ROCE_ACCL)",
)
