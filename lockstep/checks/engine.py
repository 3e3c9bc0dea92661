"""Rules x records x plans -> Report. Pure: it reads nothing but its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lockstep.checks import folding
from lockstep.checks.context import Context, View
from lockstep.checks.evaluation import Evaluation
from lockstep.checks.growth import GrowthNotes
from lockstep.checks.raw_findings import RawFinding
from lockstep.checks.rule import Rule
from lockstep.checks.rules.system import NODE_REACHABLE
from lockstep.probe.record import Record, Unreachable
from lockstep.report import Finding, Reference, Report
from lockstep.spec import Service

REACHABLE = NODE_REACHABLE.id
"""An unreachable node has this finding only; the rule is judged whichever rules are chosen."""


def check(rules: Sequence[Rule], context: Context, limit: Iterable[str] | None = None) -> Report:
    """Return what every rule finds; with ``limit``, what concerns these nodes.

    Peers outside the limit are compared with all the same. A cause outside of it is not shown,
    so nothing is folded into it: the limit comes first.
    """
    return check_together(rules, [context], limit)


def check_together(
    rules: Sequence[Rule], contexts: Sequence[Context], limit: Iterable[str] | None = None
) -> Report:
    """Return what every rule finds on the nodes of several clusters, peers over all of them."""
    judged = [rule for rule in rules if rule.id != REACHABLE]
    nodes = [context.labelled(name) for context in contexts for name in context.plan.nodes]
    wanted = frozenset(nodes if limit is None else limit)
    notes = GrowthNotes()
    views = {view.name: view for context in contexts for view in context.views.values()}
    alone = [raw for context in contexts for raw in _unreachable(NODE_REACHABLE, context)]
    found = [raw for raw in (*alone, *_judged(judged, views, notes)) if raw.nodes & wanted]
    kept = folding.explain(folding.folded(found), _controllers(contexts))
    report = Report(
        nodes=tuple(name for name in nodes if name in wanted),
        rules=tuple(rule.id for rule in rules if not rule.is_off),
        notes=tuple(notes.texts(wanted)),
        off=tuple(off for rule in rules for off in rule.switched_off),
    )
    report.add(raw.finding for raw in kept)
    return report


def _judged(
    rules: Iterable[Rule], views: Mapping[str, View], notes: GrowthNotes
) -> Iterator[RawFinding]:
    evaluations = [Evaluation(rule, views, notes) for rule in rules]
    for view in views.values():
        for evaluation in evaluations:
            evaluation.add(view)
    for evaluation in evaluations:
        yield from evaluation.findings()


def _controllers(contexts: Iterable[Context]) -> dict[str, str]:
    """Return node -> the node that runs its slurmctld, where there is one."""
    return {
        context.labelled(name): context.labelled(controller.name)
        for context in contexts
        if (controller := context.plan.running(Service.SLURM_CONTROLLER)) is not None
        for name in context.plan.nodes
    }


def _unreachable(rule: Rule, context: Context) -> Iterator[RawFinding]:
    for name, plan in context.plan.nodes.items():
        got = context.reading.get(name, Unreachable("no record of it"))
        if isinstance(got, Record):
            continue
        finding = Finding(
            rule=rule.id,
            node=context.labelled(name),
            device="",
            field=rule.reading,
            found=got.reason,
            expected="a record of the node",
            reference=Reference.SPEC.value,
            repair=rule.repair.text.format(
                inventory=plan.cluster.inventory or "INVENTORY",
                node=name,
                role=plan.role.value,
                address=plan.address,
            ),
            severity=rule.severity.differs.value,
        )
        yield RawFinding(finding, frozenset({finding.node}), rule)
