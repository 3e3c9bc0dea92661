"""No row of a board's memory was replaced since the last record.

Why      Each replaced row was an error that ended a job; spare rows are few.
Blind    Rows replaced before the first record of a boot.
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
from lockstep.report import Severity

READING = "gpu.remapped.uncorrectable"

RULE = Rule(
    id="gpu.row_remapped",
    title="no row was replaced since the last record",
    reading=READING,
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    show=lambda value: f"{value} rows",
    severity=Severity.WARNING,
    applies=asks(READING),
    repair="watch {device} of {node}; rows that go on: dcgmi diag -r 3, then have it replaced",
    explained_by=(
        *UNREAD_WITH_COUNT,
        *same_board("gpu.ecc_uncorrected", "gpu.ecc_uncorrected_lifetime", "gpu.row_remap"),
        Cause("gpu.xid", same_device=True, with_grounds=OF_MEMORY),
    ),
    source="NVIDIA GPU memory error management, row remapping",
)
