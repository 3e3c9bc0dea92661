"""A node's tasks in a rolling reboot, and the reasons to reboot that remain afterwards."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass

from lockstep.facts.reboot import IN_VAIN, Conversation, HoldState, Unanswered
from lockstep.facts.slurm import AWAITS_REBOOT
from lockstep.plan import NodePlan
from lockstep.plan.reboot import Pending, Reason, listed

OURS = "lockstep-reboot:"
"""Prefix of the rollout's drain reasons. It is not "lockstep:", because the health check resumes
nodes whose drain reason starts with "lockstep:"."""
OUT = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVALID_REG", "NOT_RESPONDING"}
"""States and flags in which a node gets no jobs (sinfo(1), node state codes)."""
HELD = OUT - {"NOT_RESPONDING", "INVALID_REG"}
"""States and flags that stay until an administrator or a program clears them."""


@dataclass(frozen=True)
class Decision:
    """The work that a rollout has to do on a node in its turn."""

    pending: Pending
    boot: str
    hold: HoldState
    worker: bool
    """Whether the node takes jobs; if so, it is drained first."""

    @property
    def leftover(self) -> bool:
        """Whether an unfinished rollout drained the node, or a deploy that wants a reboot."""
        return is_ours(self.hold.reason) and bool(self.hold.states & HELD)

    @property
    def nothing(self) -> bool:
        """Whether this rollout has nothing to do on the node."""
        return not (self.pending.reasons or self.pending.in_vain or self.leftover)

    @property
    def stands(self) -> str:
        """Describe the reasons to reboot that remained after an earlier reboot."""
        return f"a reboot did not resolve this ({listed(self.pending.in_vain)})"

    def why(self, plan: NodePlan) -> str:
        """Describe the node's tasks, or say why there are none."""
        if self.pending.reasons:
            return f"to reboot: {self.pending}"
        if self.pending.in_vain:
            return f"not rebooted again: {self.stands}"
        first = self.pending.deploy_first
        missing = (
            f"deploy first: the boot loader's menu lacks {first} "
            f"({plan.cluster.deploy_command(plan.role.value)} --limit {plan.name})"
            if first
            else ""
        )
        if self.leftover:
            return "to check and resume: drained by a rollout that did not finish" + (
                f"; {missing}" if missing else ""
            )
        return missing or self.pending.remark or "no reboot is pending"


def is_ours(reason: str) -> bool:
    """Return whether a drain reason is of a rollout, or of a deploy that left the reboot to it."""
    return reason.startswith(OURS) or reason == AWAITS_REBOOT


def still(look: Callable[[], Pending], before: Pending) -> tuple[Reason, ...]:
    """Return the reasons in ``before`` that remain after the reboot. Raises Unanswered."""
    now = look()
    after = {*now.reasons, *now.in_vain}
    return tuple(reason for reason in before.reasons if reason in after)


def remember(talk: Conversation, reasons: tuple[Reason, ...]) -> None:
    """Store on the node, until its next boot, why it still needs a reboot. Raises Unanswered."""
    if not reasons:
        return
    folder = IN_VAIN.rpartition("/")[0]
    lines = " ".join(shlex.quote(str(reason)) for reason in reasons)
    kept, output = talk.say(f"mkdir -p {folder} && printf '%s\\n' {lines} > {IN_VAIN}")
    if not kept:
        raise Unanswered(f"{IN_VAIN} was not written: {' '.join(output.stderr_lines)[:200]}")
