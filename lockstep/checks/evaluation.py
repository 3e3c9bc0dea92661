"""One rule and all nodes: it judges each node alone, then all of them together.

For each item the first reference with a value decides: the description, else the device's own
default, else the peers. An unread item is a finding of its own and has no vote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from pydantic import JsonValue

from lockstep.checks import compare, growth, peer_groups, raw_findings
from lockstep.checks.compare import Majority, Split
from lockstep.checks.context import Items, View
from lockstep.checks.growth import GrowthNotes, UnknownGrowth
from lockstep.checks.raw_findings import NO_GROWTH, RawFinding
from lockstep.checks.rule import Kind, Rule, Skip
from lockstep.probe.record import MISSING, Unread
from lockstep.report import Reference


@dataclass
class Evaluation:
    """A rule that judges one node after the other."""

    rule: Rule
    views: Mapping[str, View]
    """All nodes by name."""
    notes: GrowthNotes
    _found: list[RawFinding] = field(default_factory=list)
    _for_peers: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    """Node -> device -> value, where only all nodes together decide."""
    _last: _Sorted | None = None
    _last_equal: tuple[object, object] = (None, None)
    """The last items without a difference, and their expected values."""

    def add(self, view: View) -> None:
        """Judge a node alone; keep what only its peers can judge."""
        rule = self.rule
        if not rule.judges(view):
            return
        declared = rule.expected.judged(view)
        one = self._sorted(_items(rule, view, declared))
        for device, value in one.unread.items():
            self._found.append(
                raw_findings.unknown(rule, view, device, f"not read: {value.unread}")
            )
        if not one.read:
            return
        if rule.kind is Kind.UNIQUE:
            self._for_peers[view.name] = one.read
        elif rule.kind is Kind.GROWTH:
            self._found += _grown(rule, view, one.read, self.notes)
        elif rule.kind is not Kind.MULTISET:
            self._differing(view, one.read, declared)
        elif not one.unread:  # a set that lacks what could not be read is no set to compare
            self._differing(view, {"": compare.multiset(one.read)}, declared)

    def findings(self) -> Iterator[RawFinding]:
        """Return the findings, once all nodes were added."""
        yield from self._found
        if self.rule.kind is Kind.UNIQUE:
            for same in compare.duplicates(self._for_peers):
                yield raw_findings.repeated(self.rule, same, self.views)
        elif self.rule.peers is not None:
            yield from _outvoted(self.rule, self._for_peers, self.views)

    def _sorted(self, items: Items) -> _Sorted:
        """Return the items, sorted as those of the node before where they are the same object.

        Equal ones would not do: 0 and no are equal.
        """
        last = self._last
        if last is None or items is not last.items:
            last = self._last = _sorted(items, _picked(self.rule, items))
        return last

    def _differing(
        self, view: View, items: dict[str, JsonValue], declared: Mapping[str, JsonValue] | None
    ) -> None:
        rule, expected = self.rule, self.rule.expected
        each = declared or {}
        if declared is None and expected.by_device is not None:
            each = expected.by_device(view)
        common = None if expected.common is None else expected.common(view)
        defaults = {} if expected.default is None else view.items(expected.default)
        wants = (each, common, defaults)
        if items is self._last_equal[0] and wants == self._last_equal[1]:
            return
        declared_each = {device: one for device, one in each.items() if one is not None}
        if not declared_each and not defaults and common is None:
            self._for_peers[view.name] = items
            return
        sure = declared_each or (defaults if common is None else dict.fromkeys(items, common))
        # The usual case at a glance: everything is as it should be.
        if rule.kind is not Kind.ABSOLUTE and items == sure and None not in sure.values():
            self._last_equal = items, wants
            return
        undeclared: dict[str, JsonValue] = {}
        differ: list[RawFinding] = []
        for device, value in items.items():
            wanted, reference = each.get(device, common), Reference.SPEC
            if wanted is None:
                default = defaults.get(device)
                if default is None or isinstance(default, Unread):
                    undeclared[device] = value
                    continue
                wanted, reference = default, Reference.DEVICE
            if not _agrees(rule, value, wanted):
                differ.append(
                    raw_findings.differs(rule, view, device, value, wanted, reference.value)
                )
        self._found += differ
        if undeclared:
            self._for_peers[view.name] = undeclared
        elif not differ:
            self._last_equal = items, wants


@dataclass(frozen=True)
class _Sorted:
    """The items of a node, those that were read and those that were not."""

    items: Items
    """As they were before a part of each was picked; kept, so that nothing else gets its id."""
    read: dict[str, JsonValue]
    unread: dict[str, Unread]


def _sorted(items: Items, picked: Items) -> _Sorted:
    unread = {device: one for device, one in picked.items() if isinstance(one, Unread)}
    read = {d: picked[d] for d in picked.keys() - unread.keys()} if unread else picked
    return _Sorted(items, cast(dict[str, JsonValue], read), unread)


def _judged_items(rule: Rule, view: View) -> Items:
    """Return what a rule has to judge on a node, of each item the part that matters."""
    return _picked(rule, _items(rule, view, rule.expected.judged(view)))


def _picked(rule: Rule, items: Items) -> Items:
    """Return the part of each item that matters to a rule; what was not read stays unread."""
    if rule.look.pick is None:
        return items
    found: Items = {}
    for device, value in items.items():
        picked = value if isinstance(value, Unread) else rule.look.pick(value)
        if not isinstance(picked, Skip):
            found[device] = picked
    return found


def _items(rule: Rule, view: View, declared: Mapping[str, JsonValue] | None) -> Items:
    """Return what a rule has to judge on a node, its missing devices as unread."""
    look = rule.look
    items = view.items(rule.reading) if look.items is None else look.items(view)
    if len(items) == 1 and isinstance(items.get(""), Unread):
        return items
    if declared is not None:
        if declared.keys() == items.keys():
            return items
        return {device: items.get(device, MISSING) for device in declared}
    if look.devices is not None:
        listed = view.record.items(look.devices)
        if not isinstance(listed, Unread) and not listed.keys() <= items.keys():
            return {device: items.get(device, MISSING) for device in sorted({*items, *listed})}
    return items


def _agrees(rule: Rule, value: JsonValue, wanted: JsonValue) -> bool:
    if rule.kind is Kind.ABSOLUTE:
        return compare.holds(value, wanted, rule.expected.bound)
    return value == wanted


def _outvoted(
    rule: Rule, seen: dict[str, dict[str, JsonValue]], views: Mapping[str, View]
) -> Iterator[RawFinding]:
    assert rule.peers is not None
    present = [views[name] for name in seen]
    for group, members in peer_groups.groups(present, rule.peers).items():
        values = {view.name: seen[view.name] for view in members}
        ballots = (
            compare.differing_slots(values)
            if rule.kind is Kind.SLOTS
            else {"": compare.ballot(values)}
            if rule.kind is Kind.WITHIN or not compare.all_alike(values.values())
            else {}
        )
        for ballot, votes in ballots.items():
            verdict = (
                compare.worse(votes, rule.expected.bound, rule.tolerance_on(members[0]))
                if rule.kind is Kind.WITHIN
                else compare.vote(votes)
            )
            if isinstance(verdict, Majority):
                reference = peer_groups.agreeing(verdict.nodes, verdict.of, group)
                for one in verdict.others:
                    view = views[one.node]
                    yield raw_findings.differs(
                        rule, view, one.device, one.value, verdict.value, reference
                    )
            elif isinstance(verdict, Split):
                yield raw_findings.undecided(rule, ballot, verdict, group, views)


def _grown(
    rule: Rule, view: View, items: dict[str, JsonValue], notes: GrowthNotes
) -> Iterator[RawFinding]:
    for one in growth.verdicts(rule, view, items, _judged_items, notes):
        if isinstance(one, UnknownGrowth):
            raw = raw_findings.unknown(rule, view, one.device, one.found, one.expected)
            yield replace(raw, tags=frozenset({NO_GROWTH}))
        else:
            yield raw_findings.difference(
                rule, view, one.device, (one.found, one.expected), one.reference
            )
