"""The memory of all boards of a hardware class can reach the same clock.

Why      Other firmware or another variant of a board: the slowest board sets the pace.
Blind    The clock that the memory does reach: gpu.clock_memory.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, same_board, supported

READING = "gpu.clocks.max_memory_mhz"

RULE = Rule(
    id="gpu.clock_max_memory",
    title="one maximum memory clock per hardware class",
    reading=READING,
    devices=DEVICES,
    pick=supported,
    peers=Peers.CLASS,
    show=lambda value: f"{value} MHz",
    applies=asks(READING),
    repair_peers="compare the firmware (gpu.vbios) and part number of the board in {node} with "
    "its peers",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.name", "gpu.clock_max")),
    source="nvidia-smi --help-query-gpu, clocks.max.memory",
)
