"""Containers of one engine lock as much memory and run on as many CPUs on every node.

Why      RDMA registers memory: where memlock is smaller, NCCL falls back or fails. A container on
         other CPUs than its peers' sets the pace of the job.
Blind    Limits that a job sets itself.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._container import asked, part
from lockstep.probe.record import Unread


def _look(view: View) -> Items:
    cpus = part(view, "cpus")
    return {
        engine: memlock
        if isinstance(memlock, Unread)
        else f"memlock {memlock}, CPUs {cpus[engine]}"
        for engine, memlock in part(view, "memlock").items()
    }


RULE = Rule(
    id="container.limits",
    title="containers have the same limits everywhere",
    reading="containers",
    kind=Kind.SLOTS,
    look=_look,
    peers=Peers.CLASS,
    applies=asked,
    repair="compare `systemctl show {device}` and its daemon.json on {node} with a peer's",
    owner="container_runtime",
    explained_by=(Cause("container.devices", same_device=True, only_unread=True),),
    source="getrlimit(2); NCCL user guide, troubleshooting: memory lock limits",
)
