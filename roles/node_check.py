"""A node checks itself in Slurm's health check, prolog and epilog, and on timers: for metrics, and
for Kubernetes.

Owns     the program of the check, its rules and its timers.
Restart  only the timers; each run loads the program anew.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lockstep.node import readers
from lockstep.plan import NodePlan
from lockstep.plan.declaration import SHELL, Declaration, File, Phase, Stage, Unit, whole_unit
from lockstep.plan.slurm_files import HEALTH_CHECK
from lockstep.render import render

LIBRARY = "/usr/local/lib/lockstep"
PACKAGE = Path(readers.__path__[0]).parents[1]
MODULES = (
    *sorted(f"node/readers/{path.name}" for path in (PACKAGE / "node/readers").glob("[!_]*.py")),
    *(f"node/check/{name}.py" for name in ("judge", "kubernetes", "metrics", "slurm", "program")),
)
PYTHON = f"PYTHONPATH={LIBRARY} python3 -s"
COMPILES = (
    "python3 -IS -c 'import sys; [compile(open(f).read(), f, \"exec\") for f in sys.argv[1:]]' "
    "{every_new}"
)
SERVICE = "lockstep-node-check.service"
TIMER = "lockstep-node-check.timer"
HEALTH_SERVICE, HEALTH_TIMER = "lockstep-node-health.service", "lockstep-node-health.timer"
"""Slurm runs the health check itself; for workers of Kubernetes, a timer does."""


def _module(name: str, plan: NodePlan) -> str:
    return render("header.j2") + (PACKAGE / name).read_text(encoding="utf-8")


def _takes_pods(plan: NodePlan) -> bool:
    return plan.takes_pods


def _judged_by(plan: NodePlan) -> str:
    # Imported here, because rules import the declarations and most users of a declaration need no
    # rules.
    from lockstep.checks import local

    return local.configuration(plan)


ROLE = Declaration(
    name="node_check",
    title="Node check",
    when=lambda plan: plan.is_worker,
    after=("container_runtime",),
    files=(
        *(
            File(
                path=f"{LIBRARY}/lockstep/{name}",
                text=partial(_module, name),
                # Compiled by the node's Python, which may be older than the one of the deploy.
                validate=COMPILES,
            )
            for name in MODULES
        ),
        File(
            path="/etc/lockstep/node-check.json",
            text=_judged_by,
            own=True,
            validate=f"{PYTHON} -m lockstep.node.check.program verify {{new}}",
        ),
        File(
            path=HEALTH_CHECK,
            template="node_check/node-check.sh.j2",
            mode="755",
            validate=SHELL,
        ),
        File(
            path=f"/etc/systemd/system/{SERVICE}",
            template=f"node_check/{SERVICE}.j2",
            validate=whole_unit(SERVICE),
        ),
        File(
            path=f"/etc/systemd/system/{TIMER}",
            template=f"node_check/{TIMER}.j2",
            validate=whole_unit(TIMER),
        ),
        *(
            File(
                path=f"/etc/systemd/system/{unit}",
                template=f"node_check/{unit}.j2",
                validate=whole_unit(unit),
                wanted=_takes_pods,
            )
            for unit in (HEALTH_SERVICE, HEALTH_TIMER)
        ),
    ),
    units=(
        Unit(
            name=TIMER,
            reads=lambda plan: (f"/etc/systemd/system/{SERVICE}", f"/etc/systemd/system/{TIMER}"),
            reads_own_files=False,
        ),
        Unit(
            name=HEALTH_TIMER,
            reads=lambda plan: (
                f"/etc/systemd/system/{HEALTH_SERVICE}",
                f"/etc/systemd/system/{HEALTH_TIMER}",
            ),
            reads_own_files=False,
            wanted=_takes_pods,
        ),
    ),
    operations="lockstep.roles.operations.node_check",
    stages=(Stage(function="program", title="Node check, first", phase=Phase.BEFORE_HEADS),),
)
