"""No board met an error that could not be corrected since the last record.

Why      A reset hides it: the count since then begins anew, the one of a board's life does not.
Blind    What came before the first record of a boot: a board keeps its count for life.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    OF_MEMORY,
    UNREAD_WITH_COUNT,
    asks,
    same_board,
    supported,
)

READING = "gpu.ecc.uncorrected_aggregate"

RULE = Rule(
    id="gpu.ecc_uncorrected_lifetime",
    title="no uncorrected error since the last record",
    reading=READING,
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    applies=asks(READING),
    repair="drain {node}, dcgmi diag -r 3; when errors come back, have {device} replaced",
    explained_by=(
        *UNREAD_WITH_COUNT,
        *same_board("gpu.ecc_uncorrected", "gpu.ecc_sram_threshold", "gpu.row_remap"),
        Cause("gpu.xid", same_device=True, with_grounds=OF_MEMORY),
    ),
    source="nvidia-smi --help-query-gpu, ecc.errors.uncorrected.aggregate.total",
)
