"""Questions about a node's GPUs, answered by nvidia-smi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockstep.node.readers.gpu import NO_ROW
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.plan.reboot import RECOVERED
from lockstep.question import Taken, question


@dataclass(frozen=True)
class GpuSettings:
    """The settings of a GPU as nvidia-smi prints them; None for a setting that it omits."""

    uuid: str
    enforced_limit_w: float | None = None
    default_limit_w: float | None = None
    persistence: str | None = None
    compute_mode: str | None = None
    ecc_pending: str | None = None
    mig: str | None = None
    ecc: str | None = None
    mig_pending: str | None = None
    busy: bool = False
    """Whether a process has a compute context on the GPU."""
    mig_devices: tuple[str, ...] = ()
    """Profiles of the GPU's MIG devices, sorted."""


@dataclass(frozen=True)
class GpuStates:
    """All GPUs of a node, as nvidia-smi reports them."""

    every: tuple[GpuSettings, ...] = ()
    answered: bool = True
    """False if all states are unknown because nvidia-smi did not answer (no driver, GPU lost)."""
    to_reset: tuple[str, ...] = ()
    """UUIDs of the GPUs that need a reset: a row remapping or a page retirement is pending,
    uncorrected errors have occurred since the last reset, or the driver recommends a reset."""


SETTINGS = {
    "enforced_limit_w": "gpu.power.enforced_w",
    "default_limit_w": "gpu.power.default_w",
    "persistence": "gpu.persistence",
    "compute_mode": "gpu.compute_mode",
    "ecc_pending": "gpu.ecc.pending",
    "mig": "gpu.mig.current",
    "ecc": "gpu.ecc.current",
    "mig_pending": "gpu.mig.pending",
}
RESETS = (
    *("gpu.remapped.pending", "gpu.retired.pending"),
    *("gpu.recovery_action", "gpu.ecc.uncorrected_volatile"),
)


@question(
    *("GPUs", "gpu.uuid", "gpu.lost", "gpu.processes", "gpu.mig.devices"),
    *SETTINGS.values(),
    *RESETS,
)
def gpu_states(taken: Taken) -> GpuStates:
    """Ask for the settings of all GPUs, and which GPUs need a reset."""
    why = taken.unread("gpu.uuid")
    if why is not None and not why.startswith(NO_ROW):
        return GpuStates(answered=False)
    uuids = {gpu: str(taken.item("gpu.uuid", gpu)) for gpu in taken["gpu.uuid"]}
    # None: the GPU does not have this value, or the driver does not report it.
    to_reset = tuple(
        uuid
        for gpu, uuid in uuids.items()
        if any(_asks(taken.known(reading, gpu)) for reading in RESETS)
    )
    if taken["gpu.lost"] or taken.unread("gpu.processes"):
        return GpuStates((), False, to_reset)
    is_divided = any(taken.known(SETTINGS["mig"], gpu) == "Enabled" for gpu in uuids)
    divided = taken["gpu.mig.devices"] if is_divided else {}
    every = tuple(
        GpuSettings(
            uuid,
            **{name: _setting(taken.known(reading, gpu)) for name, reading in SETTINGS.items()},
            busy=uuid in taken["gpu.processes"],
            mig_devices=tuple(divided.get(gpu, ())),
        )
        for gpu, uuid in uuids.items()
    )
    return GpuStates(every, True, to_reset)


def _setting(value: str | float | None) -> Any:
    """Return a setting, or None if the model does not have it."""
    return None if value == NOT_SUPPORTED else value


def _asks(value: str | int | None) -> bool:
    return value > 0 if isinstance(value, int) else value in ("Yes", *RECOVERED)
