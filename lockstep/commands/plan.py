"""``lockstep plan INVENTORY [NODE]``: prints the plan without contacting any node."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from lockstep import becomes
from lockstep.commands import INVENTORY, Argument, Command, node_named
from lockstep.forms import table
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.report import ExitStatus, alike, fold


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    if arguments.node is None:
        document, text = plan.to_json(), _cluster(plan)
    else:
        node = node_named(plan, arguments.node)
        rows = list(becomes.lines(plan, node.name))
        document = {
            **node.to_json(),
            "becomes": [dict(zip(("field", "becomes", "from"), row, strict=True)) for row in rows],
        }
        entries = table([*_entries("", node.to_json())])
        text = "\n".join([*entries, "", *table([("FIELD", "BECOMES", "FROM"), *rows])])
    print(json.dumps(document, indent=2) if arguments.json else text)
    return ExitStatus.CONSISTENT


def _cluster(plan: ClusterPlan) -> str:
    kinds = alike(
        plan.nodes.values(),
        lambda node: (
            node.role.value,
            node.hardware.name,
            node.release.name,
            ", ".join(service.value for service in node.node.runs) or "-",
        ),
    )
    rows = [
        (fold(node.name for node in nodes), str(len(nodes)), *kind) for kind, nodes in kinds.items()
    ]
    lines = [
        f"cluster {plan.spec.name}: {len(plan.nodes)} nodes, {', '.join(plan.spec.releases)}",
        "",
        *table([("NODES", "COUNT", "ROLE", "HARDWARE", "OS", "RUNS"), *rows]),
        "",
        *plan.notes,
        *_ask(plan),
        f"Whole plan of one node: lockstep plan {plan.inventory} NODE",
    ]
    return "\n".join(lines)


def _ask(plan: ClusterPlan) -> Iterator[str]:
    if any(node.software.pins for node in plan.nodes.values()):
        command = f"lockstep mirror {plan.inventory} --check"
        yield f"Are its versions still in the repositories? {command}"


def _entries(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each value in a document; dots join nested names."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _entries(f"{name}.{key}".lstrip("."), inner)
    elif isinstance(value, list):
        yield name, " ".join(map(str, value)) or "-"
    else:
        yield name, "-" if value in (None, "", {}) else str(value)


COMMAND = Command(
    run=_run,
    help="print the plan: the desired state of every node",
    arguments=(
        INVENTORY,
        Argument("node", metavar="NODE", nargs="?", help="show the whole plan of this node"),
        Argument("--json", action="store_true", help="print JSON"),
    ),
)
