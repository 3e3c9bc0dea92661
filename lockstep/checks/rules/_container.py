"""What the rules about GPUs in containers share."""

from __future__ import annotations

import re

from pydantic import JsonValue

from lockstep.checks.context import Items, Value, View
from lockstep.checks.rule import Cause, anything
from lockstep.probe.record import Unread

OLD_SPECIFICATION = (Cause("cdi.devices"), Cause("cdi.driver"), Cause("gpu.count"))
"""Engines give what the specification says."""
UNREAD_WITH_DEVICES = Cause("container.devices", same_device=True, only_unread=True)
"""A container that does not start is one finding."""
BY_HAND = "on {node}: start one by hand with {device}; see its log (journalctl -u {device})"


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


def named(files: Value, pattern: str) -> Value:
    """Return the device files that a pattern names."""
    if not isinstance(files, dict):
        return files
    return [path for path in sorted(files) if re.fullmatch(pattern, path)]


def numbered(files: Value, pattern: str) -> Value:
    """Return the device files that a pattern names, each with its number."""
    if not isinstance(files, dict):
        return files
    return [f"{path} {files[path]}" for path in sorted(files) if re.fullmatch(pattern, path)]


def unlike_the_node(seen: Value, own: Value) -> Value:
    """Return in what a container's list differs from its node's; nothing where it is the same."""
    if not isinstance(seen, list) or not isinstance(own, list):
        return own if isinstance(seen, list) else seen
    return [
        *(f"lacks {one}" for one in own if one not in seen),
        *(f"has {one}" for one in seen if one not in own),
    ]


def difference(value: JsonValue) -> str:
    """Return such a list as text."""
    return anything(value) if value else "as on the node"


def files_unlike_the_node(view: View, pattern: str) -> Items:
    """Return in which device files the container of each engine differs from the node."""
    own = numbered(view.read("device.files"), pattern)
    seen = part(view, "devices")
    return {
        engine: unlike_the_node(numbered(files, pattern), own) for engine, files in seen.items()
    }


def boards(view: View) -> JsonValue:
    """Return the planned device files of the boards."""
    return list[JsonValue](sorted(view.plan.hardware.gpu_devices))


def driver(view: View) -> JsonValue:
    """Return the planned driver."""
    return [view.plan.nvidia.spec.driver] if view.plan.nvidia is not None else []
