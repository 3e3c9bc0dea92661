"""No board was slowed down by its driver for heat since the last record.

Why      Above its operating temperature the driver lowers a board's clocks step by step.
Blind    The first record of a boot.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._gpu import (
    DEVICES,
    HEAT,
    UNREAD_WITH_COUNT,
    asks,
    same_board,
    seconds,
    supported,
)

READING = "gpu.slowdown.thermal_sw_us"

RULE = Rule(
    id="gpu.thermal_sw",
    title="no thermal slowdown by the driver since the last record",
    reading=READING,
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    show=seconds,
    applies=asks(READING),
    repair="fans, filters, cold plate and inlet of {node}; compare with the same slot of its peers",
    explained_by=(
        *UNREAD_WITH_COUNT,
        Cause("gpu.slowdown", same_device=True, with_grounds=HEAT),
        *same_board("gpu.thermal_hw"),
    ),
    source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.sw_thermal_slowdown",
)
