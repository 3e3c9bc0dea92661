"""Files of the node check: its program, what it judges by, its timer."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lockstep.files._entry import Entry, whole_unit
from lockstep.plan import NodePlan
from lockstep.plan.software import NODE_CHECK_TIMER
from lockstep.render import render

LIBRARY = "/usr/local/lib/lockstep"
PACKAGE = Path(__file__).resolve().parent.parent
MODULES = (
    *sorted(f"node/readers/{path.name}" for path in (PACKAGE / "node/readers").glob("[!_]*.py")),
    *(f"node/check/{name}.py" for name in ("judge", "metrics", "slurm", "program")),
)
PYTHON = f"PYTHONPATH={LIBRARY} python3 -s"
COMPILES = (
    "python3 -IS -c 'import sys; [compile(open(f).read(), f, \"exec\") for f in sys.argv[1:]]' "
    "{every_new}"
)


def _module(name: str, plan: NodePlan) -> str:
    return render("header.j2") + (PACKAGE / name).read_text(encoding="utf-8")


def _judged_by(plan: NodePlan) -> str:
    # All rules: whoever needs the list of files alone, before a node is read, does not wait.
    from lockstep.checks import local

    return local.configuration(plan)


ENTRIES = (
    *(
        Entry(
            "node_check",
            f"{LIBRARY}/lockstep/{name}",
            text=partial(_module, name),
            # Judged by the Python that will run it, which may be older than ours.
            validate=COMPILES,
        )
        for name in MODULES
    ),
    Entry(
        "node_check",
        "/etc/lockstep/node-check.json",
        text=_judged_by,
        own=True,
        validate=f"{PYTHON} -m lockstep.node.check.program verify {{new}}",
    ),
    Entry(
        "node_check",
        "/usr/local/libexec/lockstep/node-check",
        "node_check/node-check.sh.j2",
        mode="755",
        validate="sh -n {new}",
    ),
    Entry(
        "node_check",
        "/etc/systemd/system/lockstep-node-check.service",
        "node_check/lockstep-node-check.service.j2",
        validate=whole_unit("lockstep-node-check.service"),
    ),
    Entry(
        "node_check",
        f"/etc/systemd/system/{NODE_CHECK_TIMER}",
        "node_check/lockstep-node-check.timer.j2",
        validate=whole_unit(NODE_CHECK_TIMER),
    ),
)
