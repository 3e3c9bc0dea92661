"""Findings about objects that differ, without those that a rule explains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

from lockstep.checks.context import Context, View
from lockstep.checks.fingerprint import texts
from lockstep.checks.fingerprint.decide import (
    PACKAGE,
    By,
    Verdict,
    uneven_packages,
    verdict,
    wants_past,
)
from lockstep.checks.fingerprint.objects import (
    Branches,
    Difference,
    Side,
    differences,
    shown,
    unanswered,
)
from lockstep.checks.fingerprint.past import Past
from lockstep.checks.fingerprint.places import RUNNING, Place, Taken, differing
from lockstep.checks.fingerprint.subjects import Found, joined, of_object, subjects
from lockstep.checks.raw_findings import RawFinding
from lockstep.checks.rule import Rule
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.node.fingerprint.tree import FORMAT
from lockstep.probe.record import FINGERPRINT, MISSING, Record, Unread
from lockstep.report import Finding, Status, alike, count, fold

READING = FINGERPRINT
BRANCHES = "fingerprint.branches"

REMOVALS = {
    "file": "rm {device}",
    "unit": "systemctl disable --now {device}",
    "user": "userdel {device}",
    "group": "groupdel {device}",
}
"""Domain -> the command that removes an object which no package owns."""
PLAIN = re.compile(r"[\w@.:+/-]+")
"""Names that mean nothing else to a shell."""


@dataclass(frozen=True)
class Group:
    """Nodes of one kind, which must be equal."""

    views: Mapping[str, View]

    @cached_property
    def taken(self) -> dict[str, Taken]:
        """The fingerprints of the nodes that have one."""
        return {name: found for name, view in self.views.items() if (found := _of(view.record))}

    @cached_property
    def branches(self) -> dict[str, Branches]:
        """The fields of the nodes that were asked for them."""
        found = {name: view.record.get(BRANCHES) for name, view in self.views.items()}
        return {
            name: cast(Branches, value)
            for name, value in found.items()
            if isinstance(value, dict) and value
        }

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Where the fingerprints differ."""
        return tuple(differing(self.taken))

    @cached_property
    def past(self) -> Past:
        """The earlier fingerprints."""
        versions = {}
        for context in {id(view.context): view.context for view in self.views.values()}.values():
            for (node, domain), found in context.past.items():
                if context.labelled(node) in self.views:
                    versions[context.labelled(node), domain] = found
        return Past(versions, self.taken, self.branches)

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The objects that differ."""
        return tuple(differences(self.places, self.branches))

    @cached_property
    def uneven(self) -> frozenset[str]:
        """The packages that are installed on some of the nodes only."""
        return uneven_packages(self.differences)

    def places_of(self, chosen: Mapping[str, Rule]) -> list[Place]:
        """Return the places in the domains of the chosen rules."""
        return [place for place in self.places if shown(place.domain) in chosen]


def _of(record: Record) -> Taken | None:
    value = record.get(READING)
    return Taken.of(value) if isinstance(value, dict) and value.get("format") == FORMAT else None


def groups(contexts: Iterable[Context]) -> list[Group]:
    """Return the nodes that must be equal: those with the same role, hardware and services."""
    views = [view for context in contexts for view in context.views.values()]
    kinds = alike(views, lambda view: view.plan.kind)
    return [Group({view.name: view for view in same}) for same in kinds.values()]


def are_taken(contexts: Iterable[Context]) -> bool:
    """Return whether any node has a fingerprint, or could not take it."""
    values = (view.record.get(READING) for one in contexts for view in one.views.values())
    return any(value != MISSING for value in values)


def places(contexts: Iterable[Context]) -> list[Place]:
    """Return where fingerprints differ."""
    return [place for group in groups(contexts) for place in group.places]


def wanted_past(contexts: Iterable[Context]) -> set[tuple[str, str]]:
    """Return the nodes and domains whose earlier fingerprints help to judge: (node, domain)."""
    return {
        (group.views[node].plan.name, difference.domain)
        for group in groups(contexts)
        for difference in group.differences
        for node in wants_past(difference, group.uneven)
    }


@dataclass
class FingerprintNotes:
    """Nodes without a fingerprint: read through another program, or by an older Lockstep."""

    without: set[str] = field(default_factory=set)

    def texts(self, wanted: frozenset[str]) -> Iterator[str]:
        """Yield the note about the nodes in ``wanted``."""
        if nodes := self.without & wanted:
            yield f"no fingerprint, so only what rules compare was compared: {fold(nodes)}"


def made(
    rules: Sequence[Rule],
    contexts: Sequence[Context],
    others: Iterable[RawFinding],
    notes: FingerprintNotes,
) -> Iterator[RawFinding]:
    """Yield a finding for each object that differs and that no other finding explains.

    Args:
        rules: the rules that were chosen.
        contexts: the clusters.
        others: the findings of all other rules.
        notes: gets the nodes without a fingerprint.
    """
    chosen = {rule.id.removeprefix(FAMILY): rule for rule in rules if rule.id.startswith(FAMILY)}
    if not chosen or not are_taken(contexts):
        return
    known: dict[str, frozenset[str]] = {}
    for raw in others:
        for node in raw.nodes if raw.finding.status != Status.UNKNOWN.value else ():
            for view in _views(contexts, node):
                explained = (
                    of_object(one) for d in raw.covers for one in raw.rule.explains(view, d)
                )
                known[node] = known.get(node, frozenset()).union(*explained)
    for group in groups(contexts):
        yield from _not_read(group, chosen, notes)
        yield from joined(_of_group(group, chosen), known)


def _views(contexts: Sequence[Context], node: str) -> Iterator[View]:
    for context in contexts:
        if node in context.views:
            yield context.views[node]


def _not_read(
    group: Group, chosen: Mapping[str, Rule], notes: FingerprintNotes
) -> Iterator[RawFinding]:
    """Yield a finding for each node or domain that could not be read."""
    taken = group.taken
    for name, view in group.views.items():
        value = view.record.get(READING)
        if isinstance(value, Unread) and value != MISSING:
            yield _unread(chosen[next(iter(chosen))], view, value.unread)
        elif name not in taken:
            notes.without.add(name)
        else:
            for domain, reason in taken[name].unread.items():
                if domain in chosen:
                    yield _unread(chosen[domain], view, reason)
    for name, domains in _hidden(unanswered(group.places_of(chosen), group.branches)).items():
        for domain, number in domains.items():
            yield _not_shown(chosen[domain], name, number)


def _hidden(places: Iterable[Place]) -> dict[str, Counter[str]]:
    """Return the number of places whose objects are not known: node -> domain -> number."""
    found: dict[str, Counter[str]] = {}
    for place in places:
        for nodes in place.sides[1:] or place.sides:
            for node in nodes:
                found.setdefault(node, Counter())[shown(place.domain)] += 1
    return found


def _of_group(group: Group, chosen: Mapping[str, Rule]) -> Iterator[Found]:
    past = group.past
    for difference in group.differences:
        domain = shown(difference.domain)
        if domain not in chosen:
            continue
        rule = chosen[domain]
        decided = verdict(difference, past, group.uneven)
        fields = next((side.fields for side in difference.sides if side.fields is not None), None)
        about = subjects(domain, difference.name, fields)
        for found in _findings(rule, difference, decided):
            raw = _with_change(found, difference, past)
            yield Found(domain, difference.name, raw, about)


def _findings(rule: Rule, difference: Difference, decided: Verdict) -> Iterator[RawFinding]:
    if difference.domain == RUNNING:
        yield from _running(rule, difference)
    elif decided.right is None:
        yield _undecided(rule, difference)
    else:
        for side in difference.sides:
            for node in side.nodes if side is not decided.right else ():
                yield _wrong(rule, difference, node, side, decided.right, decided.by)


def _with_change(raw: RawFinding, difference: Difference, past: Past) -> RawFinding:
    """Return a finding with the time at which its object has changed, as far as it is known."""
    times = {node: past.changed(difference, node) for node in sorted(raw.nodes)}
    known = alike((node for node in times if times[node]), times.__getitem__)
    texts = [
        time if raw.finding.status == Status.DIFFERS.value else f"{time} on {fold(nodes)}"
        for time, nodes in known.items()
    ]
    return replace(raw, finding=replace(raw.finding, changed="; ".join(texts)))


def _wrong(
    rule: Rule, difference: Difference, node: str, side: Side, right: Side, by: By
) -> RawFinding:
    reference = by.value
    if by is By.MAJORITY:
        reference = f"{by.value} ({len(right.nodes)} of {difference.nodes})"
    return _raw(
        rule,
        node,
        difference.name,
        (texts.found(side.fields, right.fields), texts.found(right.fields, side.fields)),
        reference,
        _repair(rule, difference, node, side, right, by),
        texts.detail(side.fields, right.fields),
    )


def _repair(rule: Rule, difference: Difference, node: str, side: Side, right: Side, by: By) -> str:
    domain, name = shown(difference.domain), difference.name
    package = (side.fields or right.fields or {}).get(PACKAGE)
    if by is By.PACKAGE and package:
        return (
            f"on {node}: apt-get install --reinstall -o Dpkg::Options::=--force-confmiss,confnew "
            f"{package}"
        )
    removable = domain in REMOVALS and PLAIN.fullmatch(name)
    if right.fields is None and removable and (side.fields or {}).get("type") != "folder":
        return f"on {node}: {REMOVALS[domain].format(device=name)}"
    return f"on {node}: make {name} as on {fold(right.nodes)}"


def _running(rule: Rule, difference: Difference) -> Iterator[RawFinding]:
    for side in difference.sides:
        for node in side.nodes if side.fields is not None else ():
            yield _raw(
                rule,
                node,
                difference.name,
                ((side.fields or {}).get("running", ""), (side.fields or {}).get("configured", "")),
                By.CONFIGURED.value,
                f"on {node}: apply the configured value, or change the configuration",
            )


def _undecided(rule: Rule, difference: Difference) -> RawFinding:
    nodes = [node for side in difference.sides for node in side.nodes]
    first = difference.sides[0].fields
    sides = "; ".join(
        f"{texts.found(side.fields, first if side.fields is not first else None)} "
        f"on {fold(side.nodes)}"
        for side in difference.sides
    )
    finding = Finding(
        rule=rule.id,
        node=fold(nodes),
        device=difference.name,
        field=READING,
        found=sides,
        expected=f"the same on {fold(nodes)}",
        reference=By.MAJORITY.value,
        repair="decide which value is right, and set it on the other nodes",
        severity=rule.severity.differs.value,
        status=Status.UNDECIDED.value,
        detail=texts.detail(difference.sides[1].fields, first),
    )
    parties = tuple(frozenset(side.nodes) for side in difference.sides)
    return RawFinding(finding, frozenset(nodes), rule, sides=parties)


def _not_shown(rule: Rule, node: str, number: int) -> RawFinding:
    return _raw(
        rule,
        node,
        "",
        (f"{count(number, 'difference')}, of objects that were not read", "none"),
        By.MAJORITY.value,
        f"check again; if {node} is another kind of node, describe it as one",
        status=Status.UNKNOWN,
    )


def _unread(rule: Rule, view: View, reason: str) -> RawFinding:
    return _raw(
        rule,
        view.name,
        "",
        (f"not read: {reason}", "a reading"),
        By.MAJORITY.value,
        f"find the cause on {view.plan.name}, then check again",
        status=Status.UNKNOWN,
    )


def _raw(
    rule: Rule,
    node: str,
    device: str,
    texts_: tuple[str, str],
    reference: str,
    repair: str,
    detail: str = "",
    status: Status = Status.DIFFERS,
) -> RawFinding:
    found, expected = texts_
    finding = Finding(
        rule=rule.id,
        node=node,
        device=device,
        field=READING,
        found=found,
        expected=expected,
        reference=reference,
        repair=repair,
        severity=rule.severity.differs.value,
        status=status.value,
        detail=detail,
    )
    return RawFinding(finding, frozenset({node}), rule)
