"""What the rules about GPUs in containers share."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause
from lockstep.probe.record import Unread

OLD_SPECIFICATION = (Cause("cdi.devices"), Cause("cdi.driver"), Cause("gpu.count"))
"""Engines give what the specification says."""


def has_cdi(view: View) -> bool:
    """Apply where containers get GPUs."""
    stack = view.plan.nvidia
    return stack is not None and stack.has("container_toolkit")


def asked(view: View) -> bool:
    """Apply where engines were asked to start a container (`lockstep check --containers`)."""
    return bool(view.plan.check_engines) and view.record.get("containers") != {}


def part(view: View, name: str) -> Items:
    """Return one thing that the container of each engine saw."""
    seen = view.items("containers")
    return {
        engine: value
        if isinstance(value, Unread)
        else value[name]
        if isinstance(value, dict) and name in value
        else Unread(unread=f"no {name} in the answer")
        for engine, value in seen.items()
    }


def boards(view: View) -> JsonValue:
    """Return the planned device files of the boards."""
    return list[JsonValue](sorted(view.plan.hardware.gpu_devices))


def driver(view: View) -> JsonValue:
    """Return the planned driver."""
    return [view.plan.nvidia.spec.driver] if view.plan.nvidia is not None else []
