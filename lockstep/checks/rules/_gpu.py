"""Functions and causes shared by the rules about GPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import JsonValue

from lockstep.catalog import gpus
from lockstep.catalog.gpus import GpuModel
from lockstep.checks.context import Items, View
from lockstep.checks.looks import together
from lockstep.checks.rule import SAME_DEVICE, UNREAD, Cause, Skip
from lockstep.node.readers.gpu_fields import EVERY
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.plan.nvidia import NvidiaPlan
from lockstep.probe.record import MISSING, Unread
from lockstep.spec.hardware import Gpu

FIELD_OF = {reading: field for reading, field, _ in EVERY}
P = TypeVar("P")
T = TypeVar("T")

DEVICES = "gpu.uuid"
"""The reading that contains the GPUs listed by nvidia-smi."""

PCI_GPUS = "gpu.pci.boards"
"""The reading that contains the GPUs on the PCI bus, keyed by address."""

GONE = "lost GPU"
UNREAD_WITH_COUNT = (
    Cause("gpu.count", of=UNREAD),
    Cause("gpu.lost", tag=GONE, of=UNREAD),
    Cause("gpu.recovery_action", at=SAME_DEVICE, of=UNREAD),
    Cause("gpu.silent", at=SAME_DEVICE, of=UNREAD),
)
"""If the driver is not responding, this is reported once, not for every reading. The same applies
to a GPU that is not responding because it needs a reset."""

UNREAD_WITH_PCI = (Cause("gpu.count_pci", of=UNREAD),)
"""If the PCI bus cannot be read, only one finding is reported."""

UNREAD_WITH_MIG = (Cause("gpu.mig", at=SAME_DEVICE, of=UNREAD),)
"""A GPU that is partitioned with MIG does not report all fields."""
RESET_TOGETHER = (
    "drain {node}, reset all GPUs together (nvidia-smi -r); if errors continue, reseat or "
    "replace {device}"
)
"""The repair for failing NVLinks. All links of a baseboard must be retrained together."""
COMPARE_VARIANT = (
    "compare the firmware (gpu.vbios) and the part number of the affected GPUs in {node} with "
    "those of its peers"
)
"""The repair if a GPU of another variant, or with other firmware, is the likely cause."""
LOST = "fallen off the bus"
OF_MEMORY = "errors of the memory"
OF_NVLINK = "errors of NVLinks"
HEAT = "too hot"
BRAKE = "power brake"


def _of(part: Callable[[View], P | None], value: Callable[[P], T]) -> Callable[[View], T | None]:
    def wanted(view: View) -> T | None:
        found = part(view)
        return None if found is None else value(found)

    return wanted


def of_gpus(value: Callable[[Gpu], T]) -> Callable[[View], T | None]:
    """Return a function that applies ``value`` to a node's declared GPUs (None if it has none)."""
    return _of(lambda view: view.plan.hardware.hardware.nvidia_gpu, value)


def of_model(value: Callable[[GpuModel], T]) -> Callable[[View], T | None]:
    """Return a function that applies ``value`` to a node's GPU model (None if it has no GPUs)."""
    return _of(lambda view: view.plan.hardware.gpu_model, value)


of_own_model = of_model(lambda model: model.architecture is None)
"""Whether the node's GPUs are of a model whose architecture is not declared."""


def of_stack(value: Callable[[NvidiaPlan], T]) -> Callable[[View], T | None]:
    """Return a function that applies ``value`` to a node's NVIDIA software (None if absent)."""
    return _of(lambda view: view.plan.nvidia, value)


def gpus_with(condition: Callable[[Gpu], object]) -> Callable[[View], bool]:
    """Return a function that tests whether the declared GPUs of a node meet a condition."""
    return lambda view: bool(of_gpus(condition)(view))


has_gpus = gpus_with(lambda gpu: True)
switched = gpus_with(lambda gpu: gpu.nvswitch or gpu.multi_node_nvlink)
"""Return whether switches connect the NVLinks of the node's GPUs."""
on_bus = gpus_with(lambda gpu: gpu.in_sysfs)
"""Return whether the node's GPUs appear in /sys/bus/pci."""
has_whole_gpus = gpus_with(lambda gpu: not gpu.mig)
"""Return whether the node has GPUs that are not partitioned with MIG."""
planned_count = of_gpus(lambda gpu: gpu.count)


def has_all(view: View) -> bool:
    """Return whether gpu.count, if it was read, shows all GPUs.

    A missing GPU shifts the indices of the others.
    """
    seen = view.read("gpu.count")
    return has_gpus(view) and (isinstance(seen, Unread) or seen == planned_count(view))


def supported(value: JsonValue) -> JsonValue | Skip:
    """Skip the value of an unsupported field. The rule gpu.supported_fields reports such fields."""
    return Skip.SKIP if value == NOT_SUPPORTED else value


_in_catalogue = of_gpus(lambda gpu: gpu.name in gpus.known())


def told(reading: str) -> Callable[[View], Items]:
    """Return a function that returns the values of ``reading``, which the catalogue's models have.

    If such a GPU does not tell one, it is ``Unread``. A GPU that only the description knows may be
    a virtual one, and one that is partitioned with MIG does not tell everything: their values stay
    "not supported".
    """

    def look(view: View) -> Items:
        items = view.items(reading)
        if NOT_SUPPORTED not in items.values() or not _in_catalogue(view):
            return items
        why = Unread(unread=f"nvidia-smi: {FIELD_OF[reading]} is N/A")
        modes = view.items("gpu.mig.current")
        return {
            device: why if one == NOT_SUPPORTED and modes.get(device) != "Enabled" else one
            for device, one in items.items()
        }

    return look


def both(
    first: str, second: str, combined: Callable[[JsonValue, JsonValue], JsonValue]
) -> Callable[[View], Items]:
    """Return a function that combines two readings into one value for each GPU.

    If either value is ``Unread`` or not supported, so is the combined value.
    """

    def look(view: View) -> Items:
        left, right = view.items(first), view.items(second)
        whole = left.get("", right.get(""))
        if isinstance(whole, Unread):
            return {"": whole}
        return {
            device: together(left.get(device, MISSING), right.get(device, MISSING), _combined)
            for device in sorted({*left, *right})
        }

    def _combined(one: JsonValue, other: JsonValue) -> JsonValue:
        return NOT_SUPPORTED if NOT_SUPPORTED in (one, other) else combined(one, other)

    return look


def up_to(reading: str, most: str) -> Callable[[View], Items]:
    """Return a function that returns the values of ``reading``, to be compared with ``most``.

    A value is ``Unread`` if the value of ``most`` could not be read.
    """
    return both(reading, most, lambda now, limit: now)


def only_where(
    look: Callable[[View], Items], condition: str, holds: Callable[[JsonValue], bool]
) -> Callable[[View], Items]:
    """Return a function that replaces an item of ``look`` with None if ``condition`` does not hold.

    ``holds`` tests the reading ``condition``. If this reading is ``Unread``, so is the item.
    """

    def found(view: View) -> Items:
        states = view.items(condition)
        whole = states.get("", MISSING)
        return {
            device: together(value, states.get(device, whole), where_it_holds)
            for device, value in look(view).items()
        }

    def where_it_holds(value: JsonValue, state: JsonValue) -> JsonValue:
        return value if holds(state) else None

    return found


def after_reset(now: JsonValue, later: JsonValue) -> JsonValue:
    """Return the current mode, or both modes as text if the next GPU reset changes the mode."""
    return now if now == later else f"{now}, {later} after a reset"


def watts(value: object) -> str:
    """Return a power value in watts as text."""
    return f"{value:g} W" if isinstance(value, int | float) else str(value)
