"""No board was held back by its power supply since the last record.

Why      The power brake halves clocks at once: a supply that fails, a cap in the BMC or the rack.
Blind    The first record of a boot; what the driver itself caps (gpu.power_limit).
"""

from lockstep.checks.rule import Cause, Kind, Rule
from lockstep.checks.rules._gpu import BRAKE, DEVICES, UNREAD_WITH_COUNT, asks, seconds, supported

READING = "gpu.slowdown.power_brake_us"

RULE = Rule(
    id="gpu.power_brake",
    title="no power brake since the last record",
    reading=READING,
    kind=Kind.GROWTH,
    devices=DEVICES,
    pick=supported,
    show=seconds,
    applies=asks(READING),
    repair="drain {node}; its power supplies, their feeds, and a cap in the BMC or the rack",
    explained_by=(*UNREAD_WITH_COUNT, Cause("gpu.slowdown", same_device=True, with_grounds=BRAKE)),
    source="nvidia-smi --help-query-gpu, clocks_event_reasons_counters.hw_power_brake_slowdown",
)
