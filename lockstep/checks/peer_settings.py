"""Functions and causes for rules that compare undeclared settings with those of the peers."""

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
    """Return whether the node is a worker. Head nodes have other tasks and settings."""
    return view.plan.role is NodeRole.WORKER


def only_difference(found: JsonValue, expected: JsonValue) -> tuple[str, str]:
    """Return two texts: how a list or map differs from that of the peers, and what is expected."""
    here, there = _pairs(found), _pairs(expected)
    changed = {name for name in here.keys() & there.keys() if here[name] != there[name]}
    more, less = sorted(here.keys() - there.keys()), sorted(there.keys() - here.keys())
    parts = (("additional", more), ("missing", less), ("different", sorted(changed)))
    differences = "; ".join(f"{word}: {', '.join(names)}" for word, names in parts if names)
    return differences, "the same as on its peers"


def _pairs(value: JsonValue) -> dict[str, JsonValue]:
    if isinstance(value, dict):
        return dict(value)
    return {str(one): True for one in value} if isinstance(value, list) else {}


def size(value: JsonValue) -> str:
    """Return, as text, the number of entries in a list or map that is too long to show."""
    return f"{len(_pairs(value))} entries"
