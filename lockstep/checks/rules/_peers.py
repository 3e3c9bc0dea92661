"""Functions and causes shared by rules that compare undeclared settings with the peers."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import View
from lockstep.checks.rule import Cause
from lockstep.spec import NodeRole

OTHER_KERNEL = (Cause("kernel.release"), Cause("kernel.cmdline"), Cause("kernel.args"))
"""A different kernel, or different kernel arguments, can explain different defaults."""
OTHER_MACHINE = (Cause("platform.product"), Cause("cpu.model"), Cause("platform.bios"))
"""A different machine, or different firmware, can explain different settings."""


def worker(view: View) -> bool:
    """Return whether the node is a worker. Heads have other tasks and therefore other settings."""
    return view.plan.role is NodeRole.WORKER


def only_difference(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return the differences between two lists or maps."""
    here, there = _pairs(found), _pairs(expected)
    changed = {name for name in here.keys() & there.keys() if here[name] != there[name]}
    more, less = sorted(here.keys() - there.keys()), sorted(there.keys() - here.keys())
    parts = (("additional", more), ("missing", less), ("different", sorted(changed)))
    differences = "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)
    return differences, "as on its peers"


def _pairs(value: JsonValue) -> dict[str, JsonValue]:
    if isinstance(value, dict):
        return dict(value)
    return {str(one): True for one in value} if isinstance(value, list) else {}


def size(value: JsonValue) -> str:
    """Return the size, as text, of a list or map that is too long to show."""
    return f"{len(_pairs(value))} entries"
