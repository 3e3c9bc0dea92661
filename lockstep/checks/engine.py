"""Rules x records x plans -> Report. Pure: what it is given is all it knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lockstep.checks import causes
from lockstep.checks.causes import Draft
from lockstep.checks.context import Context, View
from lockstep.checks.growth import Tally
from lockstep.checks.hearing import Hearing
from lockstep.checks.rule import Rule
from lockstep.checks.rules import node_reachable
from lockstep.probe.record import Record, Unreachable
from lockstep.report import Finding, Reference, Report
from lockstep.spec import Service

REACHABLE = node_reachable.RULE.id
"""The rule whose finding ends all others for its node; judged whatever rules are chosen."""


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
    tally = Tally()
    views = {view.name: view for context in contexts for view in context.views.values()}
    alone = [draft for context in contexts for draft in _unreachable(node_reachable.RULE, context)]
    found = [draft for draft in (*alone, *_judged(judged, views, tally)) if draft.nodes & wanted]
    kept = causes.explain(causes.folded(found), _controllers(contexts))
    report = Report(
        nodes=tuple(name for name in nodes if name in wanted),
        rules=tuple(rule.id for rule in rules if not rule.is_off),
        notes=tuple(tally.notes(wanted)),
        off=tuple(off for rule in rules for off in rule.switched_off),
    )
    report.add(draft.finding for draft in kept)
    return report


def _judged(rules: Iterable[Rule], views: Mapping[str, View], tally: Tally) -> Iterator[Draft]:
    hearings = [Hearing(rule, views, tally) for rule in rules]
    for view in views.values():
        for hearing in hearings:
            hearing.hear(view)
    for hearing in hearings:
        yield from hearing.drafts()


def _controllers(contexts: Iterable[Context]) -> dict[str, str]:
    """Return node -> the node that runs its slurmctld, where there is one."""
    return {
        context.labelled(name): context.labelled(controller.name)
        for context in contexts
        if (controller := context.plan.running(Service.SLURM_CONTROLLER)) is not None
        for name in context.plan.nodes
    }


def _unreachable(rule: Rule, context: Context) -> Iterator[Draft]:
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
            repair=rule.repair.format(
                inventory=plan.cluster.inventory or "INVENTORY",
                node=name,
                role=plan.role.value,
                address=plan.address,
            ),
            severity=rule.severity.value,
        )
        yield Draft(finding, frozenset({finding.node}), rule)
