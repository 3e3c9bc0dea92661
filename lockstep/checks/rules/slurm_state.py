"""Slurm gives jobs to each worker.

Why      A drained node costs as much as a working one.
Blind    A node that is given jobs and ruins them.
"""

from pydantic import JsonValue

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Rule
from lockstep.checks.rules._slurm import (
    CONTROLLER_DOWN,
    READING,
    concerned,
    seen_by_slurm,
    unread_at_controller,
)
from lockstep.probe.record import Unread

BAD = {
    "DOWN",
    "DRAIN",
    "DRAINED",
    "DRAINING",
    "ERROR",
    "FAIL",
    "FAILING",
    "FUTURE",
    "INVAL",
    "INVALID_REG",
    "NOT_RESPONDING",
    "UNKNOWN",
}
OUR_MARK = "lockstep:"


def _look(view: View) -> Items:
    entry = seen_by_slurm(view)
    if isinstance(entry, Unread):
        return {"": entry}
    if not isinstance(entry, dict):
        return unread_at_controller(view)
    state = entry.get("state")
    if not isinstance(state, list):
        return {"": Unread(unread="not in the record")}
    if not BAD & set(map(str, state)):
        return {"": "takes jobs"}
    reason = entry.get("reason")
    return {"": "+".join(map(str, state)) + (f" ({reason})" if reason else "")}


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
    applies=concerned,
    repair="remove the cause that Slurm names, then: scontrol update NodeName={node} State=RESUME",
    explained_by=(
        CONTROLLER_DOWN,
        Cause("slurm.node"),
        Cause("slurm.conf"),
        Cause("unit.active", device="slurmd.service"),
        Cause("unit.active", device="munge.service"),
        Cause("munge.*"),
        Cause("time.*"),
        Cause("gpu.count"),
        Cause("cpu.count"),
        Cause("memory.at_least"),
        Cause("hugepages"),
        Cause("os.hostname"),
    ),
    source="scontrol(1), show node",
)
