"""All boards of a hardware class take processes alike.

Why      A board left in EXCLUSIVE_PROCESS or PROHIBITED refuses the second process of a job, or
         the first, on one node only.
Blind    A mode that is equal everywhere and wrong; what runs on the board now.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus

RULE = Rule(
    id="gpu.compute_mode",
    title="one compute mode per hardware class",
    reading="gpu.compute_mode",
    devices=DEVICES,
    peers=Peers.CLASS,
    applies=has_gpus,
    repair_peers="make the board of {node} equal to its peers: nvidia-smi -i BOARD -c 0 "
    "(0 is Default)",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi(1), compute mode",
)
