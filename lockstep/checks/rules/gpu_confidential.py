"""The memory of a board is protected (confidential computing) as its peers' is.

Why      Protected transfers to a board are slower by a multiple; one such node sets the pace.
Blind    A class where all are protected alike.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, supported

READING = "gpu.memory.protected_mib"

RULE = Rule(
    id="gpu.confidential",
    title="confidential computing is alike in a hardware class",
    reading=READING,
    devices=DEVICES,
    pick=supported,
    peers=Peers.CLASS,
    show=lambda mib: f"{mib} MiB of protected memory",
    applies=asks(READING),
    repair_peers="nvidia-smi conf-compute -f says the mode; set it on {node} as on its peers",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, protected_memory.total; confidential computing guide",
)
