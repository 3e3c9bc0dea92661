"""``lockstep plan INVENTORY [NODE]``: prints the plan without contacting any node."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from lockstep import against, becomes
from lockstep.against import Difference, entries
from lockstep.becomes import Line
from lockstep.catalog.archives import Archive
from lockstep.commands import INVENTORY, Argument, Command, WrongUse, node_named
from lockstep.forms import table
from lockstep.inventory import load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.report import ExitStatus, alike, count, fold

DIFF_LINES = 20
"""A file that differs in more lines is only named."""
OWN_PROGRAM = "/usr/local/lib/lockstep"
"""The program of the node check, which is another one in each release."""


def _run(arguments: argparse.Namespace) -> int:
    if arguments.becomes and arguments.node is None:
        raise WrongUse("--becomes: no node\n  expected  lockstep plan INVENTORY NODE --becomes")
    if arguments.against:
        return _against(arguments)
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
    values = table([*entries("", node.to_json())])
    return "\n".join([*values, "", f"What each field becomes: {command}"])


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
        *_roles(plan),
        *_ask(plan),
        f"Whole plan of one node: lockstep plan {plan.inventory} NODE",
    ]
    return "\n".join(lines)


def _roles(plan: ClusterPlan) -> Iterator[str]:
    """Yield the names that take the place of "all" when the site adopts one role after another."""
    if plan.spec.manages_nothing:
        every = plan.with_every_role.nodes.values()
        has = {role for node in every for role in node.roles}
        names = [role.name for role in plan.roles if role.name in has]
        yield f'the roles of these nodes, for "unmanaged": {", ".join(names)}'


def _ask(plan: ClusterPlan) -> Iterator[str]:
    nodes = plan.nodes.values()
    if any(node.software.pins for node in nodes):
        command = f"lockstep mirror {plan.inventory} --check"
        yield f"Are its versions still in the repositories? {command}"


def _against(arguments: argparse.Namespace) -> int:
    """Print what this release would change compared with another one."""
    if arguments.node or arguments.becomes:
        raise WrongUse("--against compares all nodes\n  expected  no NODE and no --becomes")
    load(arguments.inventory)  # its problems are those of this release
    try:
        other = against.answer(against.python_of(arguments.against), arguments.inventory)
        this = against.this_release(arguments.inventory)
    except against.OtherRelease as error:
        raise WrongUse(f"--against {arguments.against}: {error}") from error
    found = against.differences(other, this)
    releases = {"before": other["release"], "after": this["release"]}
    if arguments.json:
        rows = [asdict(one) for one in found]
        print(json.dumps({"format": 1, "releases": releases, "differences": rows}, indent=2))
    else:
        for line in _changes(found):
            print(line)
        print(
            f"{count(len(found), 'difference')} between release {releases['before']} in "
            f"{arguments.against} and this release {releases['after']}. No node was read."
        )
    return ExitStatus.DIFFERS if found else ExitStatus.CONSISTENT


def _changes(found: Sequence[Difference]) -> Iterator[str]:
    own = {one.what: one for one in found if one.what.startswith(f"file {OWN_PROGRAM}/")}
    if own:
        yield f"{OWN_PROGRAM}: {count(len(own), 'file')} of Lockstep's own program: --json"
    for one in found:
        if one.what in own:
            continue
        if one.before == one.after:  # a file with another content
            yield f"{one.nodes}: {one.what}"
        else:
            yield f"{one.nodes}: {one.what}: {one.before} -> {one.after}"
        shown = one.diff if len(one.diff) <= DIFF_LINES else ()
        yield from (f"  {line}" for line in shown)
        if one.diff and not shown:
            yield f"  {len(one.diff)} lines of difference: --json"


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
        Argument(
            "--against",
            metavar="VENV",
            help="show what this release would change on the nodes, compared with the release in "
            "another virtual environment (docs/upgrading.md); exit status 1 if anything",
        ),
        Argument("--json", action="store_true", help="print JSON"),
    ),
)
