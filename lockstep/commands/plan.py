"""``lockstep plan INVENTORY [NODE]``: prints the plan of every node; contacts no node."""

from __future__ import annotations

import argparse
import json
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING

from lockstep.inventory import WRONG_USE, load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.report import fold

if TYPE_CHECKING:
    from lockstep.commands import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add ``plan`` to the command line."""
    parser = subparsers.add_parser("plan", help="print the plan: the desired state of every node")
    parser.add_argument("inventory", metavar="INVENTORY", help="inventory file")
    parser.add_argument("node", metavar="NODE", nargs="?", help="show the whole plan of this node")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the plan; return the exit status."""
    plan = load(arguments.inventory)
    if arguments.node is None:
        print(json.dumps(plan.to_json(), indent=2) if arguments.json else _cluster(plan))
        return 0
    node = plan.nodes.get(arguments.node)
    if node is None:
        close = get_close_matches(arguments.node, plan.nodes, n=3) or [fold(plan.nodes)]
        print(
            f"ERROR {arguments.inventory}: unknown node {arguments.node!r}\n"
            f"  expected  {', '.join(close)}",
            file=sys.stderr,
        )
        return WRONG_USE
    print(json.dumps(node.to_json(), indent=2) if arguments.json else _node(node))
    return 0


def _cluster(plan: ClusterPlan) -> str:
    lines = [f"cluster {plan.spec.name}: {len(plan.nodes)} nodes, {plan.spec.os.release}", ""]
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, node in plan.nodes.items():
        runs = ", ".join(service.value for service in node.node.runs) or "-"
        groups.setdefault((node.role.value, node.hardware.name, runs), []).append(name)
    rows = [("NODES", "COUNT", "ROLE", "HARDWARE", "RUNS")]
    rows += [
        (fold(names), str(len(names)), role, hardware, runs)
        for (role, hardware, runs), names in groups.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += ["", f"Whole plan of one node: lockstep plan {plan.inventory} NODE"]
    return "\n".join(lines)


def _node(node: NodePlan) -> str:
    """Return a node's plan as ``name  value`` lines; nested names are joined with dots."""
    lines: list[tuple[str, str]] = []

    def walk(prefix: str, value: object) -> None:
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                walk(f"{prefix}.{key}".lstrip("."), inner)
        elif isinstance(value, list):
            lines.append((prefix, " ".join(map(str, value)) or "-"))
        else:
            lines.append((prefix, "-" if value in (None, "", {}) else str(value)))

    walk("", node.to_json())
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in lines)
