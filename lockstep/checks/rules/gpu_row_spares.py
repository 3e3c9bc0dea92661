"""Every bank of a board's memory has a spare row left.

Why      The next bad row of a bank without one cannot be replaced: it ends jobs for good.
Blind    Banks with few spare rows.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, same_board, supported
from lockstep.report import Severity

READING = "gpu.remapped.banks_without_spare"

RULE = Rule(
    id="gpu.row_spares",
    title="every bank of memory has spare rows",
    reading=READING,
    devices=DEVICES,
    pick=supported,
    expected=lambda view: 0,
    show=lambda value: f"{value} banks without a spare row",
    severity=Severity.WARNING,
    applies=asks(READING),
    repair="have {device} of {node} replaced at the next opportunity",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.row_remap")),
    source="NVIDIA GPU memory error management, bank remap availability",
)
