"""What the rules about GPUs share."""

from __future__ import annotations

from lockstep.checks.context import View
from lockstep.checks.rule import Cause

DEVICES = "gpu.uuid"
"""The boards that nvidia-smi lists."""

UNREAD_WITH_COUNT = (Cause("gpu.count", only_unread=True),)
"""A driver that does not answer is one finding, not one per reading."""


def has_gpus(view: View) -> bool:
    """Apply to the nodes of a class with GPUs."""
    return view.plan.hardware.gpu_model is not None


def watts(value: object) -> str:
    """Return a power as text."""
    return f"{value:g} W" if isinstance(value, int | float) else str(value)
