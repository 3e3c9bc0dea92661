"""``lockstep plan INVENTORY [NODE]``: prints the plan without contacting any node."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence

from lockstep import becomes
from lockstep.becomes import Line
from lockstep.catalog.archives import Archive
from lockstep.commands import INVENTORY, Argument, Command, WrongUse, node_named
from lockstep.forms import table
from lockstep.inventory import load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.report import ExitStatus, alike, fold


def _run(arguments: argparse.Namespace) -> int:
    if arguments.becomes and arguments.node is None:
        raise WrongUse("--becomes: no node\n  expected  lockstep plan INVENTORY NODE --becomes")
    plan = load(arguments.inventory)
    document: Mapping[str, object]
    if arguments.node is None:
        document, text = plan.to_json(), _cluster(plan)
    elif arguments.becomes:
        node = node_named(plan, arguments.node)
        lines = tuple(becomes.lines(plan, node.name))
        document, text = {**node.to_json(), **_becomes_json(lines)}, _becomes(lines)
    else:
        node = node_named(plan, arguments.node)
        document, text = node.to_json(), _node(plan, node)
    print(json.dumps(document, indent=2) if arguments.json else text)
    return ExitStatus.CONSISTENT


def _node(plan: ClusterPlan, node: NodePlan) -> str:
    command = f"lockstep plan {plan.inventory} {node.name} --becomes"
    entries = table([*_entries("", node.to_json())])
    return "\n".join([*entries, "", f"What each field becomes: {command}"])


def _becomes(lines: Sequence[Line]) -> str:
    rows = [(one.field, one.what, one.usually_from) for one in lines]
    repositories: list[tuple[str, str, str]] = []
    for archive in _archives(lines):
        first, *others = archive.keys or ("the one that the description contains",)
        repositories += [(archive.label, archive.name, first)]
        repositories += [("", "", f"or {key}") for key in others]
    return "\n".join(
        [
            *table([("FIELD", "BECOMES", "USUALLY FROM"), *rows]),
            "",
            *table([("USUALLY FROM", "REPOSITORY", "KEY"), *repositories]),
            "",
            "The node itself has the repositories that software.repositories declares for it, and",
            "the archive that its operating system lists.",
        ]
    )


def _becomes_json(lines: Sequence[Line]) -> dict[str, object]:
    return {
        "becomes": [
            {"field": one.field, "becomes": one.what, "usually_from": one.usually_from}
            for one in lines
        ],
        "usual_repositories": {
            archive.label: {"name": archive.name, "keys": list(archive.keys)}
            for archive in _archives(lines)
        },
    }


def _archives(lines: Sequence[Line]) -> list[Archive]:
    found = {one.archive.label: one.archive for one in lines if one.archive is not None}
    return [found[label] for label in sorted(found)]


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
    nodes = plan.nodes.values()
    if any(node.software.pins for node in nodes):
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
        Argument(
            "--becomes",
            action="store_true",
            help="show which packages and files of the node each field of the description becomes",
        ),
        Argument("--json", action="store_true", help="print JSON"),
    ),
)
