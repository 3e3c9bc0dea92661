"""The memory of no board corrects errors at a rate.

Why      Single errors are corrected and harmless; many in an hour come before one that is not.
Blind    A rate below the tolerance; the first record of a boot.
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    asks,
    same_board,
    supported,
)
from lockstep.report import Severity

READING = "gpu.ecc.corrected_volatile"

RULE = Rule(
    id="gpu.ecc_corrected",
    title="no rate of corrected errors",
    reading=READING,
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    per_hour=10.0,
    severity=Severity.WARNING,
    applies=asks(READING),
    repair="watch {device} of {node}; when it goes on, drain the node and run dcgmi diag -r 3",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.ecc_uncorrected", "gpu.row_remap")),
    source="nvidia-smi --help-query-gpu, ecc.errors.corrected.volatile.total; our own tolerance",
)
