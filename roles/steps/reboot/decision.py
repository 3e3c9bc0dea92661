"""The tasks of a node's turn in a rolling reboot, and the reason that holds it in Slurm."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.facts.reboot import HoldState
from lockstep.plan import NodePlan
from lockstep.plan.reboot import Pending, listed

OURS = "lockstep-reboot:"
"""How our reasons begin. Not "lockstep:": Slurm's health check resumes what begins with that."""
OUT = {"DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "INVALID_REG", "NOT_RESPONDING"}
"""States and flags in which a node gets no jobs (sinfo(1), node state codes)."""
HELD = OUT - {"NOT_RESPONDING", "INVALID_REG"}
"""Those that stay until somebody ends them."""


@dataclass(frozen=True)
class Decision:
    """What a node's turn has to do."""

    pending: Pending
    boot: str
    hold: HoldState
    worker: bool
    """It takes jobs: it is drained first."""

    @property
    def leftover(self) -> bool:
        """Whether an earlier rollout drained the node and did not finish."""
        return self.hold.reason.startswith(OURS) and bool(self.hold.states & HELD)

    @property
    def nothing(self) -> bool:
        """Whether the node is left as it is."""
        return not (self.pending.reasons or self.pending.in_vain or self.leftover)

    @property
    def stands(self) -> str:
        """Say what no reboot ended."""
        return f"a reboot did not end {listed(self.pending.in_vain)}"

    def why(self, plan: NodePlan) -> str:
        """Say what is done, or why nothing is."""
        if self.pending.reasons:
            return f"to reboot: {self.pending}"
        if self.pending.in_vain:
            return f"not rebooted again: {self.stands}"
        first = self.pending.deploy_first
        missing = (
            f"deploy first: the boot loader's menu lacks {first} "
            f"(pyinfra -y {plan.cluster.inventory} deploys/{plan.role.value}.py "
            f"--limit {plan.name})"
            if first
            else ""
        )
        if self.leftover:
            return "to check and resume: drained by a rollout that did not finish" + (
                f"; {missing}" if missing else ""
            )
        return missing or self.pending.remark or "no reboot is pending"
