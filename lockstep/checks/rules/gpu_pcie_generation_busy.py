"""The link of a board that works runs at its highest generation.

Why      A link that gives errors is trained anew at a lower speed, and stays there.
Blind    Boards that idle: their link may slow down to save power.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule, Skip
from lockstep.checks.rules._gpu import (
    DEVICES,
    UNREAD_WITH_COUNT,
    UNREAD_WITH_MIG,
    asks,
    has_whole_gpus,
    only_where,
    same_board,
    supported,
    up_to,
)

READING, MOST = "gpu.pcie.generation", "gpu.pcie.generation_max"
BUSY = 50
"""Percent of utilization: the link has long been brought up."""


def _look(view: View) -> Items:
    """Return the generation of the boards that work, None for the others."""
    reached = up_to(READING, MOST)(view)
    return only_where(view, reached, "gpu.utilization", _busy)


def _busy(percent: JsonValue) -> bool:
    return isinstance(percent, int) and percent >= BUSY


RULE = Rule(
    id="gpu.pcie_generation_busy",
    title="links of working boards run at full speed",
    reading=READING,
    look=_look,
    devices=DEVICES,
    pick=lambda generation: Skip.SKIP if generation is None else supported(generation),
    device=MOST,
    show=lambda value: f"Gen{value}",
    applies=lambda view: has_whole_gpus(view) and asks(READING, MOST)(view),
    repair="drain {node}, reset or power-cycle it; a link that stays slow: reseat {device}",
    explained_by=(*UNREAD_WITH_COUNT, *UNREAD_WITH_MIG, *same_board("gpu.pcie_generation")),
    source="nvidia-smi --help-query-gpu, pcie.link.gen.current: lower when not in use",
)
