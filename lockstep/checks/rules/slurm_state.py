"""Slurm gives jobs to each worker.

Why      A drained node costs as much as a working one.
Folded   Only a state that the other finding leads to: a node that stays silent into what stops
         its slurmd, a node that registers less than it should into what is missing, our own
         drain into its reason. A node that a person drained is always named, and so is one that
         Slurm drained for what no rule reads (Kill task failed, Prolog error, Epilog error).
Blind    A node that is given jobs and ruins them; a partition that was set down by hand.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._slurm import (
    READING,
    concerned,
    not_asked,
    seen_by_slurm,
    unread_at_controller,
)
from lockstep.probe.record import MISSING, Unread

WORKING = {
    # Base states, then flags: sinfo(1), node state codes.
    "IDLE",
    "MIXED",
    "ALLOCATED",
    "COMPLETING",
    "PLANNED",
    "RESERVED",
    "BLOCKED",  # kept free for a job that asked for a whole part of the topology
    "CLOUD",
    "DYNAMIC_NORM",
}
SILENT_STATES = {"DOWN", "NOT_RESPONDING", "UNKNOWN"}
OUR_MARK = "lockstep:"

SILENT, MEMORY, CPUS, GPUS, OURS = "silent", "memory", "cpus", "gpus", "ours"
OUR_FAMILIES = ("gpu.*", "rdma.*", "driver.*", "hugepages")
"""Rules by which a node takes itself out (Rule.local), beside single ones."""
REASONS = {
    # How Slurm's own reasons begin (slurmctld, node_mgr.c and ping_nodes.c) -> grounds.
    "Not responding": SILENT,
    "Node unexpectedly rebooted": SILENT,
    "Low RealMemory": MEMORY,
    "Low socket*core*thread count": CPUS,
    "Low CPUs": CPUS,
    "gres/gpu count": GPUS,
    OUR_MARK: OURS,
}


def _look(view: View) -> Items:
    entry = seen_by_slurm(view)
    if isinstance(entry, Unread):
        return {"": entry}
    if not isinstance(entry, dict):
        return unread_at_controller(view)
    state = entry.get("state")
    if not isinstance(state, list):
        return {"": MISSING}
    if state and WORKING.issuperset(map(str, state)):
        return {"": "takes jobs"}
    reason = entry.get("reason")
    shown = "+".join(map(str, state)) or "no state"
    return {"": shown + (f" ({reason})" if reason else "")}


def _grounds(view: View, device: str) -> frozenset[str]:
    """Return what Slurm, or our health check, gives as the reason; nothing for a person's."""
    entry = seen_by_slurm(view)
    if not isinstance(entry, dict):
        return frozenset()
    listed = entry.get("state")
    states = set(map(str, listed)) if isinstance(listed, list) else set[str]()
    reason = str(entry.get("reason") or "")
    if not reason:
        bare = states - WORKING
        return frozenset({SILENT}) if bare and bare <= SILENT_STATES else frozenset()
    # Slurm names several at once: "Low socket*core*thread count, Low CPUs".
    parts = [reason] if reason.startswith(OUR_MARK) else reason.split(", ")
    found = set()
    for part in parts:
        known = [grounds for start, grounds in REASONS.items() if part.startswith(start)]
        if not known:
            return frozenset()
        found.update(known)
    if SILENT in found and not states & SILENT_STATES:
        found.remove(SILENT)
    return frozenset(found)


def _whose(view: View, device: str) -> str:
    entry = seen_by_slurm(view)
    reason: JsonValue = entry.get("reason") if isinstance(entry, dict) else ""
    return "set by Lockstep's own health check" if str(reason).startswith(OUR_MARK) else ""


RULE = Rule(
    id="slurm.state",
    title="Slurm gives jobs to the node",
    reading=READING,
    look=_look,
    expected=lambda view: "takes jobs",
    detail=_whose,
    grounds=_grounds,
    applies=concerned,
    repair="remove the cause that Slurm names, then: scontrol update NodeName={node} State=RESUME",
    explained_by=(
        *not_asked("slurm.state"),
        Cause("slurm.conf", grounds=SILENT),
        Cause("unit.active", device="slurmd.service", grounds=SILENT),
        Cause("unit.active", device="munge.service", grounds=SILENT),
        Cause("munge.*", grounds=SILENT),  # and what explains those, such as the clock
        Cause("os.hostname", grounds=SILENT),
        Cause("gpu.count", grounds=SILENT),
        Cause("gpu.count", grounds=GPUS),
        *(Cause(family, grounds=OURS) for family in OUR_FAMILIES),
        Cause("memory.at_least", grounds=OURS),
        Cause("slurm.pyxis", grounds=OURS),
        Cause("slurm.container_image", grounds=OURS),
        Cause("cpu.count", grounds=CPUS),
        Cause("memory.at_least", grounds=MEMORY),
        *(Cause("slurm.node", grounds=grounds) for grounds in (GPUS, CPUS, MEMORY)),
    ),
    source="scontrol(1), show node; sinfo(1), node state codes",
)
