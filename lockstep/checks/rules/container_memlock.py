"""Containers may lock the declared amount of memory.

Why      RDMA registers memory: where memlock is smaller, NCCL falls back or fails.
Blind    Limits that a job sets itself. Machines that are containers themselves are compared with
         their peers: their limit is that of the machine below.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._boot import own_kernel
from lockstep.checks.rules._container import UNREAD_WITH_DEVICES, asked, part


def _look(view: View) -> Items:
    return part(view, "memlock")


def _expected(view: View) -> JsonValue:
    return str(view.plan.spec.os.memlock) if own_kernel(view) else None


RULE = Rule(
    id="container.memlock",
    title="containers may lock the declared amount of memory",
    reading="containers",
    kind=Kind.SLOTS,
    look=_look,
    expected=_expected,
    peers=Peers.CLASS,
    applies=asked,
    show=lambda value: f"{value} KiB" if str(value).isdigit() else str(value),
    repair="compare `systemctl show {device}` on {node} with its drop-in, and restart {device}",
    owner="container_runtime",
    explained_by=(UNREAD_WITH_DEVICES,),
    source="getrlimit(2); NCCL user guide, troubleshooting: memory lock limits",
)
