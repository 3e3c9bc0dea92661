"""Questions about SELinux: its mode, modules, booleans and labels."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.node.readers.reading import ABSENT as ABSENT
from lockstep.plan.selinux import SelinuxPlan
from lockstep.question import Question, Taken


@dataclass(frozen=True)
class SelinuxState:
    """SELinux, running and on disk."""

    running: str
    """``enforcing``, ``permissive`` or ``disabled``."""
    persisted: str
    """The mode of the next boot; ``absent`` without /etc/selinux/config."""
    policy: str
    """The policy of the next boot, such as ``targeted``; ``absent`` as above."""
    modules: dict[str, str]
    """Module -> SHA256 of its source; ``absent`` if it is not loaded."""
    booleans: dict[str, dict[str, str]]
    """Boolean -> ``running`` and ``persisted``, each ``on``, ``off`` or ``absent``."""
    labels: dict[str, str]
    """Path -> type; ``absent`` without the path."""
    job_steps: int


def selinux_state(plan: SelinuxPlan) -> Question[SelinuxState]:
    """Ask for the state of what the plan has, and for the number of job steps on the node."""

    def answer(taken: Taken) -> SelinuxState:
        mode = taken["selinux.mode"]
        on = mode["running"] != "disabled"
        return SelinuxState(
            running=mode["running"],
            persisted=mode["persisted"],
            policy=mode["policy"],
            modules={name: taken.item("selinux.modules", name) for name in plan.modules},
            # A kernel without SELinux has neither booleans nor labels.
            booleans={name: taken.item("selinux.booleans", name) for name in plan.booleans if on},
            labels={path: taken.item("selinux.labels", path) for path in plan.labels if on},
            job_steps=int(taken["slurm.steps"]),
        )

    return Question(
        "SELinux",
        (
            *("selinux.mode", "selinux.modules", "selinux.booleans", "selinux.labels"),
            "slurm.steps",
        ),
        answer,
        {
            "selinux_modules": plan.modules,
            "selinux_booleans": plan.booleans,
            "selinux_labels": tuple(plan.labels),
        },
    )
