"""Makes a report from rules, records and plans. The functions have no side effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from lockstep.checks import folding
from lockstep.checks.accepting import Accepting
from lockstep.checks.context import Context
from lockstep.checks.evaluation import Evaluation
from lockstep.checks.fingerprint import findings as fingerprints
from lockstep.checks.growth import GrowthNotes
from lockstep.checks.not_available import DriverNotes
from lockstep.checks.raw_findings import RawFinding
from lockstep.checks.rule import At, Rule
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.checks.rules.system import NODE_REACHABLE
from lockstep.faults import NEXT
from lockstep.probe.record import Record, Unreachable
from lockstep.report import Finding, Reference, Report
from lockstep.spec import Service

REACHABLE = NODE_REACHABLE.id
"""The only rule that reports unreachable nodes; it is checked even if it was not selected."""


def check(rules: Sequence[Rule], context: Context, limit: Iterable[str] | None = None) -> Report:
    """Check the rules and return a report, restricted to the nodes in ``limit`` if it is given.

    Nodes outside the limit still count as peers. Their findings are dropped before consequences
    are folded into causes, because a cause that is not shown must not hide its consequences.
    """
    return check_together(rules, [context], limit)


def check_together(
    rules: Sequence[Rule], contexts: Sequence[Context], limit: Iterable[str] | None = None
) -> Report:
    """Return one report on several clusters, whose nodes count as each other's peers."""
    nodes = [context.labelled(name) for context in contexts for name in context.plan.nodes]
    wanted = frozenset(nodes if limit is None else limit)
    notes, of_drivers, without = GrowthNotes(), DriverNotes(), fingerprints.FingerprintNotes()
    views = {view.name: view for context in contexts for view in context.views.values()}
    evaluations = [
        Evaluation(rule, views, notes, of_drivers)
        for rule in rules
        if rule.id != REACHABLE and not rule.id.startswith(FAMILY)
    ]
    for view in views.values():
        for evaluation in evaluations:
            evaluation.add(view)
    made = chain(
        *(_unreachable(NODE_REACHABLE, context, wanted) for context in contexts),
        *(evaluation.findings() for evaluation in evaluations),
    )
    by_rules = [*made]
    taken = fingerprints.are_taken(contexts)
    accepting = Accepting(contexts, REACHABLE)
    # A rule explains a fingerprint's difference, and an accepted finding no other finding.
    of_fingerprints = fingerprints.made(rules, contexts, by_rules, without, accepting)
    left = [*accepting.left(by_rules), *of_fingerprints]
    found = [accepting.noted(raw) for raw in left if raw.nodes & wanted]
    kept = folding.explain(folding.folded(found), _controllers(contexts))
    checked = tuple(
        rule.id for rule in rules if not rule.is_off and (taken or not rule.id.startswith(FAMILY))
    )
    report = Report(
        nodes=tuple(name for name in nodes if name in wanted),
        rules=checked,
        notes=(
            *notes.texts(wanted),
            *of_drivers.texts(wanted),
            *without.texts(wanted),
            *accepting.unused(left, checked, wanted & views.keys() - without.without),
            *dict.fromkeys(note for context in contexts for note in context.plan.left_out),
        ),
        off=tuple(off for rule in rules for off in rule.switched_off),
        accepted=[one for one in accepting.differences if one.node in wanted],
    )
    report.findings.extend(raw.finding for raw in kept)
    return report


def _controllers(contexts: Iterable[Context]) -> dict[At, dict[str, str]]:
    """Map each node to the head that runs its scheduler's control, if its cluster has one."""
    services = {
        At.CONTROLLER: Service.SLURM_CONTROLLER,
        At.CONTROL_PLANE: Service.KUBERNETES_CONTROL_PLANE,
    }
    contexts = tuple(contexts)
    return {
        at: {
            context.labelled(name): context.labelled(head.name)
            for context in contexts
            if (head := context.plan.running(service)) is not None
            for name in context.plan.nodes
        }
        for at, service in services.items()
    }


def _unreachable(rule: Rule, context: Context, wanted: frozenset[str]) -> Iterator[RawFinding]:
    for name, plan in context.plan.nodes.items():
        if context.labelled(name) not in wanted:
            continue
        got = context.reading.get(name, Unreachable("there is no record of the node"))
        if isinstance(got, Record):
            continue
        found, _, then = got.reason.partition(NEXT)
        finding = Finding(
            rule=rule.id,
            node=context.labelled(name),
            device="",
            field=rule.reading,
            found=found,
            expected="a record of the node",
            reference=Reference.SPEC.value,
            repair=then
            or rule.repair.text.format(
                inventory=plan.cluster.inventory or "INVENTORY",
                node=name,
                role=plan.role.value,
                address=plan.address,
            ),
            severity=rule.severity.differs.value,
        )
        yield RawFinding(finding, frozenset({finding.node}), rule)
