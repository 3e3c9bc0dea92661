"""No board is slowed down by heat or by its power supply right now.

Why      A board that the hardware holds back computes at half its clock or less.
Blind    Boards that slow down under load only, while they idle. The bit of any hardware slowdown
         (0x8), which a change of clocks sets as well. A cap by the power limit, which is how a
         board works at its limit.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import (
    BRAKE,
    DEVICES,
    HEAT,
    UNREAD_WITH_COUNT,
    asks,
    supported,
)

READING = "gpu.slowdown.active"
BITS = {0x20: "SW thermal slowdown", 0x40: "HW thermal slowdown", 0x80: "HW power brake"}
HOT = 0x20 | 0x40


def _look(view: View) -> Items:
    return {
        board: ", ".join(name for bit, name in BITS.items() if reasons & bit)
        if isinstance(reasons, int)
        else reasons
        for board, reasons in view.items(READING).items()
    }


def _grounds(view: View, board: str) -> frozenset[str]:
    reasons = view.items(READING).get(board)
    bits = reasons if isinstance(reasons, int) else 0
    return frozenset({*([HEAT] if bits & HOT else []), *([BRAKE] if bits & ~HOT else [])})


RULE = Rule(
    id="gpu.slowdown",
    title="no board is slowed down by heat or power supply",
    reading=READING,
    look=_look,
    devices=DEVICES,
    pick=supported,
    expected=lambda view: "",
    words=lambda found, expected: (str(found), "no slowdown by the hardware"),
    grounds=_grounds,
    applies=asks(READING),
    repair="thermal: fans, filters, cold plate and inlet of {node}; power brake: its supplies, and "
    "a cap in the BMC or the rack",
    explained_by=UNREAD_WITH_COUNT,
    source="nvml.h, nvmlClocksEventReasons",
)
