"""Drains and resumes the node in Slurm."""

from __future__ import annotations

from typing import Any

from lockstep.node.check.judge import Result
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.slurm import OURS, node_shown

LONGEST_REASON = 200
"""Maximum length of a drain reason, in characters. slurmdbd stores at most 255 bytes (tinytext)."""
TAKEN_OUT = {"DRAIN", "DOWN", "FAIL"}
"""States in which a node gets no jobs; see sinfo(1), node state codes."""


def reason(failed: list[Result]) -> str:
    """Return the drain reason: the first failure, and the number of further failures."""
    more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
    first = f"{OURS} {failed[0].text}"
    # scontrol shows a reason without trailing spaces.
    return (first[: LONGEST_REASON - len(more)] + more).rstrip()


def is_ours(node: dict[str, Any]) -> bool:
    """Return whether the node check drained a node, given the node as scontrol shows it."""
    return "DRAIN" in node["state"] and node["reason"].startswith(OURS)


def drain(name: str, failed: list[Result], commands: Commands) -> str:
    """Drain the node, unless it is already out of service for another reason; return the result."""
    node, text = node_shown(name, commands), reason(failed)
    if TAKEN_OUT & {*node["state"]} and not is_ours(node):
        held = node["reason"] or "none"
        return f"not drained: already out of service for another reason ({held})"
    if is_ours(node) and node["reason"] == text:
        return "already drained"
    commands.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={text}")
    return "drained"


def resume(name: str, commands: Commands) -> bool:
    """Resume the node if the node check drained it; return whether it was resumed."""
    if not is_ours(node_shown(name, commands)):
        return False
    commands.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
    return True
