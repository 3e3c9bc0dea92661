"""NVLinks did not repeat transfers since the last record.

Why      Each is a transfer that was lost; a link that repeats slows all collectives down.
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

RULE = Rule(
    id="gpu.nvlink_replay",
    title="NVLinks did not repeat transfers",
    reading="gpu.nvlink.replay",
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    applies=has_whole_gpus,
    repair=RESET_TOGETHER,
    explained_by=(
        *UNREAD_WITH_COUNT,
        *same_board("gpu.nvlink", "gpu.nvlink_recovery"),
    ),
    source="nvidia-smi nvlink -e; DCGM: any replay or recovery fails",
)
