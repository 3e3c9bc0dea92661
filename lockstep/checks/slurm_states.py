"""States of nodes in Slurm, and the reasons for them (sinfo(1), node state codes)."""

from __future__ import annotations

from pydantic import JsonValue

from lockstep.checks.context import Items, Value
from lockstep.probe.record import MISSING

WORKING = {
    # Base states, then flags: sinfo(1), node state codes.
    "IDLE",
    "MIXED",
    "ALLOCATED",
    "COMPLETING",
    "PLANNED",
    "RESERVED",
    "BLOCKED",  # reserved for a job that requested a whole block of the topology
    "CLOUD",
    "DYNAMIC_NORM",
}
SILENT_STATES = {"DOWN", "NOT_RESPONDING", "UNKNOWN"}
OUR_MARK = "lockstep:"
COMPARE_MARK = "lockstep-compare:"
"""Starts the drain reason of a node that is not known to equal its class."""
AWAITS_REBOOT = f"{COMPARE_MARK} equal to its class, but a reboot is pending"
REBOOT_MARK = "lockstep-reboot:"
"""Starts the drain reason of a node that the rolling reboot has drained."""

SILENT, MEMORY, CPUS, GPUS, OURS = "silent", "memory", "cpus", "gpus", "ours"
RESERVED = "reserved"
"""The node has no other state than that of a reservation for maintenance."""
REASONS = {
    # Prefix of a reason that Slurm itself gives (slurmctld, node_mgr.c, ping_nodes.c) -> tag.
    "Not responding": SILENT,
    "Node unexpectedly rebooted": SILENT,
    "Low RealMemory": MEMORY,
    "Low socket*core*thread count": CPUS,
    "Low CPUs": CPUS,
    "gres/gpu count": GPUS,
    "gres/gpu:": GPUS,
    OUR_MARK: OURS,
    COMPARE_MARK: OURS,
}


def state_of(entry: dict[str, JsonValue]) -> Items:
    """Return the state of a node in the controller's entry, with Slurm's reason."""
    state = entry.get("state")
    if not isinstance(state, list):
        return {"": MISSING}
    if state and WORKING.issuperset(map(str, state)):
        return {"": "takes jobs"}
    reason = entry.get("reason")
    shown = "+".join(map(str, state)) or "no state"
    return {"": shown + (f" ({reason})" if reason else "")}


def tags_of(entry: Value | None) -> frozenset[str]:
    """Return the tags of the reasons for a state; none if a reason is not in ``REASONS``.

    Without any reason, a node that does not respond has the tag ``SILENT``.
    """
    if not isinstance(entry, dict):
        return frozenset()
    listed = entry.get("state")
    states = set(map(str, listed)) if isinstance(listed, list) else set[str]()
    reason = str(entry.get("reason") or "")
    if not reason:
        bare = states - WORKING
        if bare == {"MAINTENANCE"}:
            return frozenset({RESERVED})
        return frozenset({SILENT}) if bare and bare <= SILENT_STATES else frozenset()
    # Slurm can give several reasons: "Low socket*core*thread count, Low CPUs".
    ours = reason.startswith((OUR_MARK, COMPARE_MARK))
    parts = [reason] if ours else reason.split(", ")
    tags = [{tag for start, tag in REASONS.items() if part.startswith(start)} for part in parts]
    if not all(tags):
        return frozenset()
    return frozenset().union(*tags) - (set() if states & SILENT_STATES else {SILENT})


def has_mark(entry: Value | None, *marks: str) -> bool:
    """Return whether the reason in a node's entry starts with one of the marks of Lockstep."""
    reason = entry.get("reason") if isinstance(entry, dict) else None
    return str(reason or "").startswith(marks)


def is_held_by_lockstep(entry: Value | None) -> bool:
    """Return whether Lockstep has drained a node: its health check, a deploy or a reboot."""
    return has_mark(entry, OUR_MARK, COMPARE_MARK, REBOOT_MARK)
