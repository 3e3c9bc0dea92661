"""Every board is further from its limit of temperature than a few degrees.

Why      At the limit clocks fall: a board that is nearly there loses them with the next warm day.
Blind    Boards that do nothing, which are cool behind any filter. The margin counts down: 0 C is
         the limit.
"""

from lockstep.checks.rule import Bound, Kind, Rule
from lockstep.checks.rules._gpu import DEVICES, UNREAD_WITH_COUNT, asks, same_board, supported
from lockstep.report import Severity

READING = "gpu.temperature.margin_c"
LEAST_C = 5

RULE = Rule(
    id="gpu.temperature",
    title="boards keep a margin of temperature",
    reading=READING,
    kind=Kind.ABSOLUTE,
    devices=DEVICES,
    pick=supported,
    expected=lambda view: LEAST_C,
    bound=Bound.AT_LEAST,
    show=lambda value: f"{value} C below the limit",
    severity=Severity.WARNING,
    applies=asks(READING),
    repair="fans, filters, cold plate and inlet of {node}; compare with the same slot of its peers",
    explained_by=(
        *UNREAD_WITH_COUNT,
        *same_board("gpu.slowdown", "gpu.thermal_hw", "gpu.thermal_sw"),
    ),
    source="nvidia-smi --help-query-gpu, temperature.gpu.tlimit; H200 under full load: 35 C",
)
