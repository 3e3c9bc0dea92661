"""All boards of a hardware class are whole, or all are divided.

Why      A board left divided (MIG) after a test gives a job a slice where it expects a board.
Blind    How a board is divided; a class whose boards are all divided. A mode that waits for a
         reset of the board.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus

RULE = Rule(
    id="gpu.mig",
    title="one MIG mode per hardware class",
    reading="gpu.mig.current",
    devices=DEVICES,
    peers=Peers.CLASS,
    show=lambda value: f"MIG {value}",
    applies=has_gpus,
    repair_peers="make the board of {node} equal to its peers: nvidia-smi -i BOARD -mig 0 "
    "(1 to divide it) while it is idle",
    explained_by=UNREAD_WITH_COUNT,
    source="nvidia-smi --help-query-gpu, mig.mode",
)
