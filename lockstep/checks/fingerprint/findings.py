"""Findings about objects that differ, without those that a rule explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

from lockstep.checks.accepting import Accepting
from lockstep.checks.context import Context, View
from lockstep.checks.fingerprint import ages
from lockstep.checks.fingerprint.building import (
    not_shown,
    running,
    undecided,
    unread,
    words,
    wrong,
)
from lockstep.checks.fingerprint.clusters import Clusters
from lockstep.checks.fingerprint.decide import (
    Verdict,
    is_majority,
    uneven_packages,
    verdict,
    wants_past,
)
from lockstep.checks.fingerprint.objects import (
    Branches,
    Difference,
    differences,
    shown,
    unanswered,
)
from lockstep.checks.fingerprint.past import Past
from lockstep.checks.fingerprint.places import RUNNING, Place, Taken, differing
from lockstep.checks.fingerprint.subjects import (
    EFFECTS,
    OF_RULES,
    Found,
    joined,
    not_as_configured,
    of_object,
    subjects,
)
from lockstep.checks.fingerprint.wanted import part, remaining
from lockstep.checks.raw_findings import RawFinding
from lockstep.checks.rule import Rule
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.node.fingerprint.tree import FORMAT
from lockstep.probe.record import FINGERPRINT, MISSING, Record, Unread
from lockstep.report import Status, alike, fold

READING = FINGERPRINT
BRANCHES = "fingerprint.branches"


@dataclass(frozen=True)
class Group:
    """Nodes of one kind, which must be equal."""

    views: Mapping[str, View]

    @cached_property
    def taken(self) -> dict[str, Taken]:
        """The fingerprints of the nodes that have one."""
        return {
            name: found for name, view in self.views.items() if (found := taken_of(view.record))
        }

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
        return tuple(differing(self.taken, self.clusters.of))

    @cached_property
    def clusters(self) -> Clusters:
        """The clusters of the nodes; usually one."""
        return Clusters(self.views)

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
        return tuple(self.clusters.compared(differences(self.places, self.branches)))

    @cached_property
    def uneven(self) -> frozenset[str]:
        """The packages that are installed on some of the nodes only."""
        return uneven_packages(self.differences)

    def places_of(self, chosen: Mapping[str, Rule]) -> list[Place]:
        """Return the places in the domains of the chosen rules."""
        return [place for place in self.places if shown(place.domain) in chosen]


def taken_of(record: Record) -> Taken | None:
    """Return the fingerprint in a record; None without one, or if another Lockstep took it."""
    value = record.get(READING)
    return Taken.of(value) if isinstance(value, dict) and value.get("format") == FORMAT else None


def groups(contexts: Iterable[Context]) -> list[Group]:
    """Return the nodes that must be equal: those with the same role, hardware and services."""
    views = [view for context in contexts for view in context.views.values()]
    kinds = alike(views, _kind)
    return [Group({view.name: view for view in same}) for same in kinds.values()]


def _kind(view: View) -> Hashable:
    """Return a key that is the same for all nodes that must be equal."""
    redefined = view.plan.hardware.name in view.context.redefined
    return (view.plan.kind, view.context.label if redefined else "")


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
    """Nodes without a fingerprint: read without one, or by another Lockstep."""

    without: set[str] = field(default_factory=set)
    without_slow: set[str] = field(default_factory=set)

    def texts(self, wanted: frozenset[str]) -> Iterator[str]:
        """Yield the note about the nodes in ``wanted``."""
        if nodes := self.without & wanted:
            yield f"no fingerprint, so only what rules compare was compared: {fold(nodes)}"
        if nodes := self.without_slow & wanted:
            yield ages.text(nodes)


def made(
    rules: Sequence[Rule],
    contexts: Sequence[Context],
    others: Iterable[RawFinding],
    notes: FingerprintNotes,
    accepting: Accepting,
) -> Iterator[RawFinding]:
    """Yield a finding for each object that differs and that no other finding explains.

    Args:
        rules: the rules that were chosen.
        contexts: the clusters.
        others: the findings of all other rules.
        notes: gets the nodes without a fingerprint.
        accepting: knows what the site accepts, and gets what was accepted.
    """
    chosen = {
        rule.id.removeprefix(FAMILY): rule
        for rule in rules
        if rule.id.startswith(FAMILY) and not rule.is_off
    }
    if not chosen or not are_taken(contexts):
        return
    known: dict[str, frozenset[str]] = {}
    for raw in others:
        for node in raw.nodes if raw.finding.status != Status.UNKNOWN.value else ():
            for view in _views(contexts, node):
                explained = (
                    of_object(one) for d in raw.covers for one in raw.rule.explains(view, d)
                )
                also = OF_RULES.get(raw.rule.id, frozenset())
                known[node] = known.get(node, frozenset()).union(also, *explained)
    for group in groups(contexts):
        yield from _not_read(group, chosen, notes)
        yield from joined(_of_group(group, chosen, accepting, frozenset(known)), known)


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
            yield unread(chosen[next(iter(chosen))], view, value.unread)
        elif name not in taken:
            notes.without.add(name)
        else:
            for domain, reason in taken[name].unread.items():
                if domain in chosen:
                    yield unread(chosen[domain], view, reason)
    notes.without_slow |= {*ages.never_read(taken)}
    hidden = unanswered(group.places_of(chosen), group.branches)
    for (name, domain, status), number in _hidden(hidden, group.clusters.of).items():
        yield not_shown(chosen[domain], name, number, status)


def _hidden(
    places: Iterable[Place], clusters: Mapping[str, str]
) -> Counter[tuple[str, str, Status]]:
    """Count the places whose objects are not known, by node and domain.

    Hashes that differ within a cluster are a difference. Between clusters, names and addresses of
    their nodes may be all that differs.
    """
    found: Counter[tuple[str, str, Status]] = Counter()
    for place in places:
        for nodes in place.sides[1:] or place.sides:
            for node in nodes:
                own = [[n for n in side if clusters[n] == clusters[node]] for side in place.sides]
                own = sorted(filter(None, own), key=len, reverse=True)
                is_known = node not in own[0] or place.domain == RUNNING
                is_odd = place.domain == RUNNING or is_majority(len(own[0]), sum(map(len, own)))
                status = Status.DIFFERS if is_odd else Status.UNDECIDED
                found[node, shown(place.domain), status if is_known else Status.UNKNOWN] += 1
    return found


def _of_group(
    group: Group, chosen: Mapping[str, Rule], accepting: Accepting, named: frozenset[str]
) -> Iterator[Found]:
    """Yield the findings about the objects that differ.

    Args:
        group: the nodes.
        chosen: domain -> its rule.
        accepting: knows what the site accepts.
        named: the nodes about which rules have findings. Only they can explain a difference, and
            the right side may have thousands of others.
    """
    past, odd = group.past, not_as_configured(group.differences)
    for whole in group.differences:
        domain = shown(whole.domain)
        rule = chosen.get(domain)
        if rule is None:
            continue
        difference = remaining(whole, rule.id, group.views, accepting)
        if difference is None:
            continue
        decided = verdict(difference, past, group.uneven)
        fields = next((side.fields for side in difference.sides if side.fields is not None), None)
        about = subjects(domain, difference.name, fields)
        right = decided.right.nodes if decided.right else ()
        if domain in EFFECTS and any(about & odd.get(node, frozenset()) for node in right):
            continue  # the configuration says that this side is wrong
        known = named.intersection(right)
        for found in _findings(group, rule, difference, decided):
            aged = ages.with_age(found, domain, group.views, group.taken)
            raw = _with_change(aged, difference, past)
            parties = known.union(raw.nodes & named)
            yield Found(domain, difference.name, raw, about, parties)


def _findings(
    group: Group, rule: Rule, difference: Difference, decided: Verdict
) -> Iterator[RawFinding]:
    if decided.right is None and difference.domain != RUNNING:
        yield undecided(group.views, rule, difference, group.uneven)
        return
    for side in difference.sides:
        if side is decided.right or (decided.right is None and side.fields is None):
            continue
        of_side = part(rule.id, difference, side, side.nodes)
        right = decided.right
        shows = None if right is None else words(difference, side, right, group.uneven)
        for view in map(group.views.__getitem__, side.nodes):
            if rule.judges(view):
                raw = (
                    running(view, rule, difference, side.fields or {})
                    if decided.right is None or shows is None
                    else wrong(view, rule, difference, (side, decided.right), shows, decided.by)
                )
                parts = (replace(of_side, nodes=(view.name,)),)
                yield replace(raw, finding=replace(raw.finding, parts=parts))


def _with_change(raw: RawFinding, difference: Difference, past: Past) -> RawFinding:
    """Return a finding with the time at which its object has changed, as far as it is known."""
    times = {node: past.changed(difference, node) for node in sorted(raw.nodes)}
    known = alike((node for node in times if times[node]), times.__getitem__)
    texts = [
        time if raw.finding.status == Status.DIFFERS.value else f"{time} on {fold(nodes)}"
        for time, nodes in known.items()
    ]
    return replace(raw, finding=replace(raw.finding, changed="; ".join(texts)))
