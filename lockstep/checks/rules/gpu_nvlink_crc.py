"""NVLinks damage few transfers since the last record.

Why      A damaged transfer is found and repeated; many of them come before a link that fails.
Blind    The first record of a boot; boards that do not count them; divided boards (MIG).
"""

from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    RESET_TOGETHER,
    UNREAD_WITH_COUNT,
    has_whole_gpus,
    same_board,
    supported,
)
from lockstep.report import Severity

RULE = Rule(
    id="gpu.nvlink_crc",
    title="NVLinks damage few transfers",
    reading="gpu.nvlink.crc",
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    per_hour=100.0,
    severity=Severity.WARNING,
    applies=has_whole_gpus,
    repair=RESET_TOGETHER,
    explained_by=(
        *UNREAD_WITH_COUNT,
        *same_board("gpu.nvlink", "gpu.nvlink_recovery", "gpu.nvlink_replay"),
    ),
    source="nvidia-smi nvlink -e; DCGM: any replay or recovery fails; our own tolerance",
)
