"""All boards of a hardware class can reach the same clock.

Why      Other firmware or another variant of a board: the slowest board sets the pace.
Blind    The clock that a board does reach: a cap by heat or power shows under load only. Locked
         clocks, which leave the maximum as it is.
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus

RULE = Rule(
    id="gpu.clock_max",
    title="one maximum clock per hardware class",
    reading="gpu.clocks.max_sm_mhz",
    devices=DEVICES,
    peers=Peers.CLASS,
    show=lambda value: f"{value} MHz",
    applies=has_gpus,
    repair_peers="compare the firmware (gpu.vbios) and part number of the board in {node} with "
    "its peers",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.name", same_device=True)),
    source="nvidia-smi --help-query-gpu, clocks.max.sm",
)
