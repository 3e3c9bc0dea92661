"""What the rules about GPUs share."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause
from lockstep.probe.record import Unread

DEVICES = "gpu.uuid"
"""The boards that nvidia-smi lists."""

UNREAD_WITH_COUNT = (
    Cause("gpu.count", only_unread=True),
    Cause("gpu.recovery_action", same_device=True, only_unread=True),
)
"""A driver that does not answer is one finding, not one per reading; so is a board that waits for
a reset and answers with these words only."""

UNREAD_WITH_MIG = (Cause("gpu.mig", same_device=True, only_unread=True),)
"""A divided board does not tell everything."""
LOST = "fallen off the bus"
OF_MEMORY = "errors of the memory"


def same_board(*rules: str, grounds: str = "") -> tuple[Cause, ...]:
    """Return causes by what these rules say of the same board."""
    return tuple(Cause(rule, same_device=True, grounds=grounds) for rule in rules)


def has_gpus(view: View) -> bool:
    """Apply to the nodes of a class with GPUs."""
    return view.plan.hardware.gpu_model is not None


def divisible(view: View) -> bool:
    """Apply to the nodes whose boards can be divided (MIG)."""
    model = view.plan.hardware.gpu_model
    return model is not None and bool(model.mig_profiles)


def has_whole_gpus(view: View) -> bool:
    """Apply to the nodes whose boards are not divided (MIG)."""
    gpu = view.plan.hardware.hardware.gpu
    return has_gpus(view) and gpu is not None and not gpu.mig


def has_ecc(view: View) -> bool:
    """Apply to the nodes whose boards correct errors."""
    gpu = view.plan.hardware.hardware.gpu
    return has_gpus(view) and gpu is not None and gpu.ecc


def in_this_driver(view: View, reading: str) -> bool:
    """Say whether the driver has a field; which driver runs is judged elsewhere."""
    value = view.read(reading)
    return not (isinstance(value, Unread) and value.unread.endswith("not known to this driver"))


def both(
    view: View, first: str, second: str, say: Callable[[JsonValue, JsonValue], JsonValue]
) -> Items:
    """Return what two readings say together of each board; unread where one of them is."""
    left, right = view.items(first), view.items(second)
    items: Items = {}
    for board in sorted({*left, *right}):
        missing = Unread(unread="not in the record")
        one, other = left.get(board, missing), right.get(board, missing)
        if isinstance(one, Unread) or isinstance(other, Unread):
            items[board] = one if isinstance(one, Unread) else other
        else:
            items[board] = say(one, other)
    return items


def after_reset(now: JsonValue, later: JsonValue) -> JsonValue:
    """Return a mode, and the one that the next reset of the board brings."""
    return now if now == later else f"{now}, {later} after a reset"


def watts(value: object) -> str:
    """Return a power as text."""
    return f"{value:g} W" if isinstance(value, int | float) else str(value)
