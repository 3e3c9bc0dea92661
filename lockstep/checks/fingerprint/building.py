"""Builds findings about objects that differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from lockstep.checks.context import View
from lockstep.checks.fingerprint import texts
from lockstep.checks.fingerprint.decide import PROGRAM, By
from lockstep.checks.fingerprint.objects import Difference, Fields, Side, shown
from lockstep.checks.fingerprint.places import RUNNING
from lockstep.checks.fingerprint.reverting import Repair, repair
from lockstep.checks.fingerprint.reverting.case import Case
from lockstep.checks.fingerprint.severities import severity_of
from lockstep.checks.fingerprint.wanted import part
from lockstep.checks.raw_findings import RawFinding
from lockstep.checks.rule import Rule
from lockstep.checks.slurm_states import RESERVED
from lockstep.node.fingerprint.entry import REPAIR
from lockstep.node.fingerprint.leftovers import REMOVED
from lockstep.node.fingerprint.tree import PROTECTED
from lockstep.probe.record import FINGERPRINT
from lockstep.report import Finding, Part, Severity, Status, count, fold, worst

FOR_MAINTENANCE = re.compile(r"reservation \S+ .*\bFlags=(?:\w+,)*MAINT\b")
"""Such a reservation alone gives its nodes a state (scontrol(1), reservation flags)."""


class Words(NamedTuple):
    """How the two sides of a difference are shown. It is the same for all nodes of a side."""

    found: str
    expected: str
    detail: str


def _severity(
    view: View, rule: Rule, difference: Difference, wrong: Fields | None, right: Fields | None
) -> Severity:
    change = rule.change(view)
    if change is not None and change.severity is not None:
        return Severity(change.severity)
    domain = shown(difference.domain)
    return severity_of(rule.severity.differs, domain, difference.name, wrong, right)


def words(difference: Difference, side: Side, right: Side, uneven: frozenset[str]) -> Words:
    """Return how a wrong side is shown next to the right one.

    Args:
        difference: the object that differs.
        side: the wrong side.
        right: the right side.
        uneven: packages that are installed on some nodes only.
    """
    return Words(
        _text(difference, side, right, uneven),
        _text(difference, right, side, uneven),
        texts.detail(side.fields, right.fields),
    )


def _text(difference: Difference, side: Side, other: Side, uneven: frozenset[str]) -> str:
    """Return how one side is shown, also if it has no object because nothing deviates there."""
    if side.fields is None and shown(difference.domain) == PROGRAM:
        return texts.not_listed(other.fields or {}, uneven)
    return texts.found(side.fields, other.fields)


def wrong(
    view: View,
    rule: Rule,
    difference: Difference,
    sides: tuple[Side, Side],
    shows: Words,
    by: By,
) -> RawFinding:
    """Return the finding about a node that has another value than the right side.

    Args:
        view: the node.
        rule: the rule of the domain.
        difference: the object that differs.
        sides: the node's, and the right one.
        shows: how they are shown (``words``).
        by: the source of the right value.
    """
    side, right = sides
    reference = by.value
    if by is By.MAJORITY:
        reference = f"{by.value} ({len(right.nodes)} of {difference.nodes})"
    family = view.plan.release.family
    case = Case(difference.name, side.fields, right.fields, family)
    removed = case.was(REMOVED)
    left = f"left by package {removed}, which was removed" if removed else ""
    return _raw(
        rule,
        view.name,
        difference.name,
        (shows.found, shows.expected),
        reference,
        _repair(view, difference.domain, case, right.nodes),
        shows.detail or left,
        severity=_severity(view, rule, difference, side.fields, right.fields),
    )


def _repair(view: View, domain: str, case: Case, right: tuple[str, ...]) -> Repair:
    """Return the repair of a difference, without a command that has the hash of a secret value.

    Of secret values only hashes are known, in a domain of their own. It has no commands.
    """
    usual = repair(view, shown(domain), case, right)
    hashes = {*(case.wrong or {}).values(), *(case.right or {}).values()}
    has_hash = domain.endswith(PROTECTED) and any(one in usual.text for one in hashes)
    return repair(view, domain, case, right) if has_hash else usual


def running(view: View, rule: Rule, difference: Difference, fields: Fields) -> RawFinding:
    """Return the finding about what runs otherwise than it is configured."""
    own = Repair(f"on {view.name}: {fields[REPAIR]}") if REPAIR in fields else None
    is_reserved = FOR_MAINTENANCE.match(f"{difference.name} {fields.get('running', '')}")
    raw = _raw(
        rule,
        view.name,
        difference.name,
        (fields.get("running", ""), fields.get("configured", "")),
        By.CONFIGURED.value,
        own or repair(view, RUNNING, Case(difference.name, fields, fields), ()),
        severity=_severity(view, rule, difference, fields, None),
    )
    return replace(raw, tags=frozenset({RESERVED}) if is_reserved else raw.tags)


def undecided(
    views: Mapping[str, View], rule: Rule, difference: Difference, uneven: frozenset[str]
) -> RawFinding:
    """Return the finding about a difference of which nobody knows the right side.

    Args:
        views: the nodes.
        rule: the rule of the domain.
        difference: the object that differs.
        uneven: packages that are installed on some nodes only.
    """
    nodes = [node for side in difference.sides for node in side.nodes]
    first, *others = difference.sides
    whole = None if first.fields is None else texts.found(first.fields, None)
    shows = [
        whole or _text(difference, first, others[0], uneven),
        *(_text(difference, side, first, uneven) for side in others),
    ]
    sides = "; ".join(
        f"{text} on {fold(side.nodes)}" for text, side in zip(shows, difference.sides, strict=True)
    )
    severities = {
        _severity(views[node], rule, difference, side.fields, first.fields)
        for side in others
        for node in side.nodes
    }
    raw = _raw(
        rule,
        fold(nodes),
        difference.name,
        (sides, f"the same on {fold(nodes)}"),
        By.MAJORITY.value,
        Repair("decide which value is right, and set it on the other nodes"),
        texts.detail(others[0].fields, first.fields),
        Status.UNDECIDED,
        worst(severities),
        tuple(part(rule.id, difference, side, side.nodes) for side in difference.sides),
    )
    parties = tuple(frozenset(side.nodes) for side in difference.sides)
    return replace(raw, nodes=frozenset(nodes), sides=parties)


def not_shown(rule: Rule, node: str, number: int, status: Status) -> RawFinding:
    """Return the finding about differences of hashes whose objects a node did not show."""
    return _raw(
        rule,
        node,
        "",
        (f"{count(number, 'difference')} in objects that were not read", "none"),
        By.MAJORITY.value,
        Repair(
            f"check the live nodes instead of saved records; if {node} is meant to differ, give it "
            "a hardware class of its own"
        ),
        status=status,
        severity=None if status is Status.UNKNOWN else rule.severity.differs,
    )


def unread(rule: Rule, view: View, reason: str) -> RawFinding:
    """Return the finding about a fingerprint or domain that could not be read."""
    return _raw(
        rule,
        view.name,
        "",
        (f"not read: {reason}", "a reading"),
        By.MAJORITY.value,
        Repair(f"find the cause on {view.plan.name}, then check again"),
        status=Status.UNKNOWN,
    )


def _raw(
    rule: Rule,
    node: str,
    device: str,
    texts_: tuple[str, str],
    reference: str,
    repaired: Repair,
    detail: str = "",
    status: Status = Status.DIFFERS,
    severity: Severity | None = None,
    parts: tuple[Part, ...] = (),
) -> RawFinding:
    found, expected = texts_
    finding = Finding(
        rule=rule.id,
        node=node,
        device=device,
        field=FINGERPRINT,
        found=found,
        expected=expected,
        reference=reference,
        repair=repaired.text,
        roles=repaired.roles,
        severity=(severity or rule.severity.unread).value,
        status=status.value,
        detail=detail,
        parts=parts,
    )
    return RawFinding(finding, frozenset({node}), rule)
