"""No board was too hot for its hardware since the last record.

Why      The hardware halves the clocks of a board that is too hot; its job waits for it.
Blind    The first record of a boot.
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._gpu import DEVICES, HEAT, UNREAD_WITH_COUNT, asks, seconds, supported

READING = "gpu.slowdown.thermal_hw_us"

RULE = Rule(
    id="gpu.thermal_hw",
    title="no thermal slowdown by the hardware since the last record",
    reading=READING,
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    show=seconds,
    applies=asks(READING),
    repair="fans, filters, cold plate and inlet of {node}; compare with the same slot of its peers",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", same_device=True, with_grounds=HEAT)),
    source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_thermal_slowdown",
)
