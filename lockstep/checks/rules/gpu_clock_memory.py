"""The memory of a board that is ready to work has its full clock.

Why      Locked memory clocks (nvidia-smi -lmc) halve the bandwidth and show nowhere else.
Blind    Boards in a lower state than P0, whose memory is slow while nothing runs.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule, Skip
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    asks,
    only_where,
    same_board,
    supported,
    up_to,
)

READING, MOST = "gpu.clocks.memory_mhz", "gpu.clocks.max_memory_mhz"


def _look(view: View) -> Items:
    """Return the memory clocks of the boards in P0, None for the others."""
    clocks = up_to(READING, MOST)(view)
    return only_where(view, clocks, "gpu.pstate", lambda state: state == "P0")


RULE = Rule(
    id="gpu.clock_memory",
    title="memory runs at its full clock",
    reading=READING,
    look=_look,
    devices=DEVICES,
    pick=lambda clock: Skip.SKIP if clock is None else supported(clock),
    device=MOST,
    show=lambda value: f"{value} MHz",
    applies=asks(READING, MOST),
    repair="on {node}: nvidia-smi -rmc; and find what locked the memory clock",
    explained_by=(*UNREAD_WITH_COUNT, *same_board("gpu.clock_max_memory")),
    source="nvidia-smi(1), --lock-memory-clocks; idle H200: P0, memory at its maximum",
)
