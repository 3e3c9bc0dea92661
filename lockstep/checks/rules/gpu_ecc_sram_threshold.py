"""No board has met more errors of its SRAM than it may.

Why      Beyond the threshold the board is to be replaced: errors there follow each other.
Blind    Errors below the threshold.
"""

from lockstep.checks.rule import Local, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, same_board, supported

READING = "gpu.ecc.sram_threshold"

RULE = Rule(
    id="gpu.ecc_sram_threshold",
    title="no board is beyond its threshold of SRAM errors",
    reading=READING,
    devices=DEVICES,
    pick=supported,
    expected=lambda view: "No",
    words=lambda found, expected: (f"threshold exceeded: {found}", "threshold exceeded: No"),
    applies=asks(READING),
    local=Local.JOBS,
    repair="drain {node} and have {device} replaced",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.ecc")),
    source="nvidia-smi --help-query-gpu, ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
)
