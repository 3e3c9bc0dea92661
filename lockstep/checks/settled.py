"""Compares nodes that wait with the nodes of their class that are settled.

While a cluster changes, a node that is already as described differs from those that are not. So a
node that wants a deploy, a reboot or a comparison itself has no vote about others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.rule import Rule
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.checks.slurm_states import is_held_by_lockstep
from lockstep.probe.record import item
from lockstep.report import Finding, Reference, Report, Status, alike
from lockstep.spec import Service
from lockstep.spec.names import expand

MOST_BATCHES = 64
"""Number of groups of one kind that are compared; each one costs a check of its settled nodes."""


@dataclass(frozen=True)
class Batch:
    """Nodes that wait, and what they are compared with."""

    nodes: frozenset[str]
    context: Context
    """It has the records of these nodes and of settled nodes only."""


def batches(rules: Sequence[Rule], context: Context, waiting: Collection[str]) -> Iterator[Batch]:
    """Yield the nodes that wait, so few at a time that settled nodes of their class outvote them.

    If no node of a class is settled, those that wait are compared with each other. Not more than
    ``MOST_BATCHES`` are made of a class: if more than 32 nodes wait for each settled one, those
    that are compared at once can outvote the settled ones.

    Args:
        rules: the rules that were chosen.
        context: the records of all nodes.
        waiting: the nodes that wait.
    """
    by_description = [rule for rule in rules if not rule.id.startswith(FAMILY)]
    settled = context.views.keys() - {*waiting, *unsettled(check(by_description, context), context)}
    controller = context.plan.running(Service.SLURM_CONTROLLER)
    always = settled if controller is None else settled | {controller.name}
    kinds = alike(
        (node for name, node in context.plan.nodes.items() if name in waiting),
        lambda node: node.kind,
    )
    for kind, nodes in kinds.items():
        peers = sum(context.plan.nodes[name].kind == kind for name in settled)
        # With half as many as the settled ones, these have two thirds of the votes.
        most = max(1, peers // 2, -(-len(nodes) // MOST_BATCHES)) if peers else len(nodes)
        for first in range(0, len(nodes), most):
            chosen = frozenset(node.name for node in nodes[first : first + most])
            reading = {
                name: record
                for name, record in context.reading.items()
                if name in always or name in chosen
            }
            yield Batch(chosen, replace(context, reading=reading))


def unsettled(report: Report, context: Context) -> frozenset[str]:
    """Return the nodes that are about to change.

    They differ from the description in what a role sets, or wait for a reboot, or Lockstep has
    drained them.

    Args:
        report: the findings of all rules but those about fingerprints.
        context: the records of the nodes.
    """
    changing = chain.from_iterable(expand(one.node) for one in report if _changes(one))
    held = (name for name in context.views if _is_held(context, name))
    return frozenset(chain(changing, held))


def _changes(finding: Finding) -> bool:
    if finding.status == Status.PENDING_REBOOT.value:
        return True
    return bool(finding.roles) and finding.reference == Reference.SPEC.value


def _is_held(context: Context, name: str) -> bool:
    nodes = None if context.controller is None else context.controller.read("slurm.nodes")
    return isinstance(nodes, dict) and name in nodes and is_held_by_lockstep(item(nodes[name]))


def joined(reports: Iterable[Report]) -> Report:
    """Return the reports of all batches as one."""
    every = [*reports]
    return Report(
        nodes=tuple(dict.fromkeys(node for one in every for node in one.nodes)),
        rules=tuple(dict.fromkeys(rule for one in every for rule in one.rules)),
        findings=[finding for one in every for finding in one.findings],
        notes=tuple(dict.fromkeys(note for one in every for note in one.notes)),
        off=tuple(dict.fromkeys(off for one in every for off in one.off)),
        accepted=[one for report in every for one in report.accepted],
    )
