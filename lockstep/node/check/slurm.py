"""What the node check asks of Slurm for its own node: take it out, bring it back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lockstep.node.check.judge import Result
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread

PREFIX = "lockstep:"
"""How a reason begins that is ours: others' are never touched."""
LONGEST_REASON = 200
"""Characters; slurmdbd keeps at most 255 bytes of one (tinytext of its table of events)."""
TAKEN_OUT = {"DRAIN", "DOWN", "FAIL"}
"""States in which a node gets no job, for whatever reason; sinfo(1), node state codes."""


@dataclass(frozen=True)
class Node:
    """A node as slurmctld has it; scontrol(1), show node."""

    states: frozenset[str]
    reason: str

    @property
    def is_ours(self) -> bool:
        """We took it out."""
        return "DRAIN" in self.states and self.reason.startswith(PREFIX)


def reason(failed: list[Result]) -> str:
    """Return what Slurm is told of the failures: the first, and how many more."""
    more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
    first = f"{PREFIX} {failed[0].text}"
    return first[: LONGEST_REASON - len(more)] + more


def show(name: str, commands: Commands) -> Node:
    """Return the node's state; ``Unread`` without an answer of the controller."""
    said = commands.run("scontrol", "-o", "show", "node", name)
    state = re.search(r" State=(\S+)", said)
    if state is None:
        raise Unread(f"scontrol: no state of {name}")
    given = re.search(r" Reason=(.*?)(?: \[[^\[\]]*@[^\[\]]*\]|$)", said, re.MULTILINE)
    states = frozenset(state.group(1).replace("*", "").split("+"))
    return Node(states, given.group(1) if given else "")


def drain(name: str, failed: list[Result], commands: Commands) -> str:
    """Take the node out, unless somebody else did; return what was done."""
    node, text = show(name, commands), reason(failed)
    if node.states & TAKEN_OUT and not node.is_ours:
        return f"left as it is, out for another reason ({node.reason or 'none'})"
    if node.is_ours and node.reason == text:
        return "already drained"
    commands.run("scontrol", "update", f"NodeName={name}", "State=DRAIN", f"Reason={text}")
    return "drained"


def resume(name: str, commands: Commands) -> bool:
    """Bring the node back if we took it out; return whether we did."""
    if not show(name, commands).is_ours:
        return False
    commands.run("scontrol", "update", f"NodeName={name}", "State=RESUME")
    return True
