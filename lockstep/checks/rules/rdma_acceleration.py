"""The RoCE adapters send again and start anew alike.

Why      Adaptive retransmission and slow restart decide what a lost packet costs; what a script
         set is gone after a reset of the adapter.
Blind    Nodes where neither mlxreg nor mstreg is installed.
"""

from pydantic import JsonValue

from lockstep.checks.context import Value
from lockstep.checks.rule import Cause, Kind, Peers, Rule
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


def _others(fields: dict[str, JsonValue]) -> Value:
    others = sorted(f"{name} {state}" for name, state in fields.items() if name != ADAPTIVE_ROUTING)
    return ", ".join(others) or NOT_ASKED


RULE = Rule(
    id="rdma.acceleration",
    title="RoCE adapters retransmit alike",
    reading=ACCELERATION,
    look=lambda view: of_register(view, _others),
    kind=Kind.SLOTS,
    devices=DEVICES,
    expected_each=lambda view: judged(view, ACCELERATION),
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    unread=Severity.WARNING,
    applies=has_roce,
    repair="on {node}, at each boot: mlxreg (or mstreg) -d the PCI address of {device} --reg_name "
    "ROCE_ACCL --set what differs from its peers",
    explained_by=(
        *FOLLOWS_PORT,
        Cause("rdma.adaptive_routing", same_device=True, says=NOT_ASKED),
        Cause("rdma.adaptive_routing", same_device=True, only_unread=True),
    ),
    source="NVIDIA, adaptive retransmission: parameters control (register ROCE_ACCL)",
)
