"""Shared by rules about GPUs."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import JsonValue

from lockstep.checks.cause import SAME_DEVICE, UNREAD, Cause, Effect
from lockstep.checks.context import Items, View
from lockstep.checks.rule import (
    Skip,
)
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import MISSING, Unread

DEVICES = "gpu.uuid"
"""The GPUs that nvidia-smi lists."""

PCI_GPUS = "gpu.pci.boards"
"""The GPUs on the kernel's PCI bus, by address."""

UNREAD_WITH_COUNT = (
    Cause("gpu.count", of=UNREAD),
    Cause("gpu.recovery_action", at=SAME_DEVICE, of=UNREAD),
)
"""A driver that does not answer is one finding, not one per reading. So is a GPU that waits for a
reset and answers nothing else."""

UNREAD_WITH_PCI = (Cause("gpu.count_pci", of=UNREAD),)
"""An unreadable PCI bus is one finding as well."""

UNREAD_WITH_MIG = (Cause("gpu.mig", at=SAME_DEVICE, of=UNREAD),)
"""A divided GPU does not report all fields."""
RESET_TOGETHER = (
    "drain {node}, reset all GPUs together (nvidia-smi -r); if errors continue, reseat or "
    "replace {device}"
)
"""The repair of failing links: the links of a baseboard train together."""
LOST = "fallen off the bus"
OF_MEMORY = "errors of the memory"
OF_NVLINK = "errors of NVLinks"
HEAT = "too hot"
BRAKE = "power brake"


def same_gpu(*rules: str, tag: str = "") -> tuple[Cause, ...]:
    """Return one cause per rule: its finding on the same GPU."""
    return tuple(Cause(rule, at=SAME_DEVICE, of=Effect(tag=tag)) for rule in rules)


def has_gpus(view: View) -> bool:
    """Apply to nodes with GPUs."""
    return view.plan.hardware.gpu_model is not None


def divisible(view: View) -> bool:
    """Apply to nodes whose GPUs can be divided (MIG)."""
    model = view.plan.hardware.gpu_model
    return model is not None and bool(model.mig_profiles)


def has_all(view: View) -> bool:
    """Apply where no GPU is missing (gpu.count): a missing one renumbers the others."""
    gpu, seen = view.plan.hardware.hardware.gpu, view.read("gpu.count")
    return has_gpus(view) and gpu is not None and (isinstance(seen, Unread) or seen == gpu.count)


def on_bus(view: View) -> bool:
    """Apply to nodes whose kernel has the GPUs on its PCI bus."""
    gpu = view.plan.hardware.hardware.gpu
    return has_gpus(view) and gpu is not None and gpu.in_sysfs


def has_whole_gpus(view: View) -> bool:
    """Apply to nodes whose GPUs are not divided (MIG)."""
    gpu = view.plan.hardware.hardware.gpu
    return has_gpus(view) and gpu is not None and not gpu.mig


def has_ecc(view: View) -> bool:
    """Apply to nodes whose GPUs have ECC."""
    gpu = view.plan.hardware.hardware.gpu
    return has_gpus(view) and gpu is not None and gpu.ecc


def in_this_driver(view: View, reading: str) -> bool:
    """Say whether the driver has a field; other rules judge its version."""
    value = view.read(reading)
    return not (isinstance(value, Unread) and value.unread.endswith("not known to this driver"))


def asks(*readings: str) -> Callable[[View], bool]:
    """Apply to nodes with GPUs whose driver has these fields."""
    return lambda view: has_gpus(view) and all(in_this_driver(view, name) for name in readings)


def supported(value: JsonValue) -> JsonValue | Skip:
    """Return a value; gpu.supported_fields alone judges fields that a GPU lacks."""
    return Skip.SKIP if value == NOT_SUPPORTED else value


def both(
    view: View, first: str, second: str, say: Callable[[JsonValue, JsonValue], JsonValue]
) -> Items:
    """Return a value made of two readings for each GPU; unread where one of them is.

    Not supported where one of them is not.
    """
    left, right = view.items(first), view.items(second)
    whole = left.get("", right.get(""))
    if isinstance(whole, Unread):
        return {"": whole}
    items: Items = {}
    for device in sorted({*left, *right}):
        one, other = left.get(device, MISSING), right.get(device, MISSING)
        if isinstance(one, Unread) or isinstance(other, Unread):
            items[device] = one if isinstance(one, Unread) else other
        elif NOT_SUPPORTED in (one, other):
            items[device] = NOT_SUPPORTED
        else:
            items[device] = say(one, other)
    return items


def up_to(reading: str, most: str) -> Callable[[View], Items]:
    """Return a look at values that should reach a maximum; unread where the maximum is."""
    return lambda view: both(view, reading, most, lambda now, limit: now)


def only_where(
    view: View, items: Items, condition: str, holds: Callable[[JsonValue], bool]
) -> Items:
    """Return items; None where a condition does not hold, unread where the condition is."""
    conditions = view.items(condition)
    whole = conditions.get("", MISSING)
    found: Items = {}
    for device, value in items.items():
        state = conditions.get(device, whole)
        if isinstance(value, Unread):
            found[device] = value
        elif isinstance(state, Unread):
            found[device] = state
        else:
            found[device] = value if holds(state) else None
    return found


def after_reset(now: JsonValue, later: JsonValue) -> JsonValue:
    """Return a mode, and the mode after the next reset of the GPU."""
    return now if now == later else f"{now}, {later} after a reset"


def seconds(value: object) -> str:
    """Return a counter of microseconds as text."""
    return f"{value / 1e6:g} s" if isinstance(value, int | float) else str(value)


def watts(value: object) -> str:
    """Return a power as text."""
    return f"{value:g} W" if isinstance(value, int | float) else str(value)
