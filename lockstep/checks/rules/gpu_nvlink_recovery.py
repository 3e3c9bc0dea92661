"""NVLinks did not have to be brought up again since the last record.

Why      A link that is trained anew stops all traffic of its board while it lasts.
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
    id="gpu.nvlink_recovery",
    title="NVLinks did not have to be brought up again",
    reading="gpu.nvlink.recovery",
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    applies=has_whole_gpus,
    repair=RESET_TOGETHER,
    explained_by=(
        *UNREAD_WITH_COUNT,
        *same_board("gpu.nvlink"),
    ),
    source="nvidia-smi nvlink -e; DCGM: any replay or recovery fails",
)
