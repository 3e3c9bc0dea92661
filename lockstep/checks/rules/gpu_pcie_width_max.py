"""Boards of a hardware class could use the same number of lanes.

Why      A board in a slot with fewer lanes, or behind a firmware that splits them, has "all its
         lanes" and half those of its peers.
Blind    A class whose slots are all narrow.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, has_gpus, same_board

RULE = Rule(
    id="gpu.pcie_width_max",
    title="boards of a class could use the same lanes",
    reading="gpu.pcie.width_max",
    devices=DEVICES,
    peers=Peers.CLASS,
    show=lambda value: f"at most x{value}",
    applies=has_gpus,
    repair_peers="compare slot, riser and the firmware's bifurcation of {node} with its peers'",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.name")),
    source="nvidia-smi --help-query-gpu, pcie.link.width.max",
)
