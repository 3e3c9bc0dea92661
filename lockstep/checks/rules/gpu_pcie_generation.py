"""Links of a hardware class's boards could reach the same PCIe generation.

Why      A firmware setting, a retimer or a riser that allows Gen4 halves what a board is fed with.
Blind    A class where all are held back alike.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, same_board, supported

READING = "gpu.pcie.generation_max"

RULE = Rule(
    id="gpu.pcie_generation",
    title="one PCIe generation per hardware class",
    reading=READING,
    devices=DEVICES,
    pick=supported,
    peers=Peers.CLASS,
    show=lambda value: f"at most Gen{value}",
    applies=asks(READING),
    repair_peers="compare the firmware's link speed, retimers and risers of {node} with its peers'",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.name")),
    source="nvidia-smi --help-query-gpu, pcie.link.gen.max",
)
