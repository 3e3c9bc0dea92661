"""/dev/shm of one engine's containers is as large on every node.

Why      NCCL and the workers of data loaders talk through it: where it is smaller, the job ends.
Blind    Too little everywhere; what a job asks for itself (--shm-size).
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._container import UNREAD_WITH_DEVICES, asked, part


def _look(view: View) -> Items:
    return part(view, "shm_kib")


RULE = Rule(
    id="container.shm",
    title="containers have as much shared memory everywhere",
    reading="containers",
    kind=Kind.SLOTS,
    look=_look,
    peers=Peers.CLASS,
    applies=asked,
    show=lambda value: f"{value} KiB",
    repair="compare {device}'s configuration on {node} with a peer's: default-shm-size, shm_size",
    owner="container_runtime",
    explained_by=(UNREAD_WITH_DEVICES,),
    source="NCCL user guide, troubleshooting: shared memory; shm_overview(7)",
)
