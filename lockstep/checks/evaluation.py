"""Evaluates one rule: checks each node on its own, then compares the nodes with their peers.

The expected value of an item comes from the first of these sources that provides it: the
description, the device's own default, the peers. An item that could not be read gets a
separate finding and no vote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from pydantic import JsonValue

from lockstep.checks import compare, growth, raw_findings
from lockstep.checks.compare import Majority, Split
from lockstep.checks.context import Items, View
from lockstep.checks.earlier import last_equal
from lockstep.checks.growth import GrowthNotes
from lockstep.checks.not_available import DriverNotes, driver_of
from lockstep.checks.raw_findings import RawFinding
from lockstep.checks.rule import Kind, Peers, Rule, Skip
from lockstep.node.readers.reading import NOT_SUPPORTED
from lockstep.probe.record import MISSING, Unread
from lockstep.report import Reference, alike, count


@dataclass
class Evaluation:
    """The evaluation of one rule, to which nodes are added one by one."""

    rule: Rule
    views: Mapping[str, View]
    """Node name -> view."""
    notes: GrowthNotes
    of_drivers: DriverNotes = field(default_factory=DriverNotes)
    _found: list[RawFinding] = field(default_factory=list)
    _for_peers: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    """Node -> device -> value, for the values that are compared with the peers' values."""
    _without: dict[str, dict[str, Unread]] = field(default_factory=dict)
    """Node -> device -> why the node's driver does not offer the value."""
    _having: set[str] = field(default_factory=set)
    """Nodes whose drivers offer all values."""
    _last: _Sorted | None = None
    _last_equal: tuple[object, object] = (None, None)
    """Cache: the last items that all matched their expected values, and those values."""

    def add(self, view: View) -> None:
        """Check a node on its own; keep the values that must be compared across nodes."""
        rule = self.rule
        if not rule.judges(view):
            return
        declared = rule.expected_on(view).judged(view)
        one = self._sorted(_items(rule, view, declared))
        without = {device: why for device, why in one.unread.items() if why.is_not_available}
        self._found += [
            raw_findings.unknown(rule, view, device, f"not read: {value.unread}")
            for device, value in one.unread.items()
            if device not in without
        ]
        if without:
            self._without[view.name] = without
        elif one.read:
            self._having.add(view.name)
        if not one.read:
            return
        if rule.kind is Kind.UNIQUE:
            self._for_peers[view.name] = one.read
        elif rule.kind is Kind.GROWTH:
            self._found += growth.findings(rule, view, one.read, _judged_items, self.notes)
        elif rule.kind is not Kind.MULTISET:
            self._differing(view, one.read, declared)
        elif not one.unread:  # a set is compared only if all its values were read
            self._differing(view, {"": compare.multiset(one.read)}, declared)

    def findings(self) -> Iterator[RawFinding]:
        """Yield the findings. Call this after all nodes have been added."""
        yield from self._found
        yield from self._not_offered()
        if self.rule.kind is Kind.UNIQUE:
            for same in compare.duplicates(self._for_peers):
                yield raw_findings.repeated(self.rule, same, self.views)
        elif self.rule.peers is not None:
            yield from _outvoted(self.rule, self._for_peers, self.views)

    def _not_offered(self) -> Iterator[RawFinding]:
        """Yield a finding for each missing value that other nodes with the same driver have."""
        offering = {driver_of(self.views[name]) for name in self._having if self._without}
        for name, found in self._without.items():
            view = self.views[name]
            driver = driver_of(view)
            if driver and driver not in offering:
                self.of_drivers.add(driver, name, self.rule.reading)
                continue
            for device, value in found.items():
                yield raw_findings.unknown(self.rule, view, device, f"not read: {value.unread}")

    def _sorted(self, items: Items) -> _Sorted:
        """Split items into read and unread ones; reuse the result if the object is still the same.

        The cache compares by identity, because 0 equals False.
        """
        if self._last is None or items is not self._last.items:
            picked = _picked(self.rule, items)
            unread = {device: one for device, one in picked.items() if isinstance(one, Unread)}
            read = {d: picked[d] for d in picked.keys() - unread.keys()} if unread else picked
            self._last = _Sorted(items, cast(dict[str, JsonValue], read), unread)
        return self._last

    def _differing(
        self, view: View, items: dict[str, JsonValue], declared: Mapping[str, JsonValue] | None
    ) -> None:
        rule, expected = self.rule, self.rule.expected_on(view)
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
        # A quick test for the usual case, in which all values are as expected.
        if rule.kind is not Kind.ABSOLUTE and items == sure and None not in sure.values():
            self._last_equal = items, wants
            return
        undeclared: dict[str, JsonValue] = {}
        differ: list[RawFinding] = []
        for device, value in items.items():
            wanted, reference = each.get(device, common), Reference.SPEC
            if wanted is None:
                default = defaults.get(device)
                if default in (None, NOT_SUPPORTED) or isinstance(default, Unread):
                    undeclared[device] = value
                    continue
                wanted, reference = default, Reference.DEVICE
            right = (
                compare.holds(value, wanted, expected.bound)
                if rule.kind is Kind.ABSOLUTE
                else value == wanted
            )
            if not right:
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
    """A node's items, all together and split into read and unread ones."""

    items: Items
    """The items before ``Look.pick`` is applied; the cache recognizes this object by identity."""
    read: dict[str, JsonValue]
    unread: dict[str, Unread]


def _judged_items(rule: Rule, view: View) -> Items:
    """Return the items that a rule checks on a node, each reduced to the part that matters."""
    return _picked(rule, _items(rule, view, rule.expected_on(view).judged(view)))


def _picked(rule: Rule, items: Items) -> Items:
    """Return the part of each item that matters to a rule; unread items stay unread."""
    pick = rule.look.pick
    if pick is None:
        return items
    picked = {d: one if isinstance(one, Unread) else pick(one) for d, one in items.items()}
    return {device: one for device, one in picked.items() if not isinstance(one, Skip)}


def _items(rule: Rule, view: View, declared: Mapping[str, JsonValue] | None) -> Items:
    """Return the items that a rule checks on a node; missing devices count as unread."""
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


def _outvoted(
    rule: Rule, seen: dict[str, dict[str, JsonValue]], views: Mapping[str, View]
) -> Iterator[RawFinding]:
    assert rule.peers is not None
    present = [views[name] for name in seen]
    groups = alike(present, partial(_group, peers=rule.peers, every=_Clusters.of(present)))
    for group, members in groups.items():
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
                reference = _agreeing(verdict.nodes, verdict.of, group)
                for one in verdict.others:
                    view = views[one.node]
                    yield raw_findings.differs(
                        rule, view, one.device, one.value, verdict.value, reference
                    )
            elif isinstance(verdict, Split):
                yield from _as_before(rule, verdict, views) or [
                    raw_findings.undecided(rule, ballot, verdict, group, views)
                ]


def _as_before(rule: Rule, split: Split, views: Mapping[str, View]) -> list[RawFinding]:
    """Return the findings on the nodes that have changed since all were equal."""
    if rule.kind is Kind.WITHIN:  # measured values are seldom equal
        return []
    known = last_equal(split, views, partial(_judged_items, rule))
    if known is None:
        return []
    wrong = [one for side in split.sides if side is not known.right for one in side]
    found = [
        raw_findings.differs(
            rule, views[one.node], one.device, one.value, known.right[0].value,
            Reference.EARLIER.value,
        )
        for one in wrong
    ]  # fmt: skip
    return [replace(raw, finding=replace(raw.finding, changed=known.changed)) for raw in found]


@dataclass(frozen=True)
class _Clusters:
    """The clusters whose nodes are compared, usually one."""

    names: tuple[str, ...]
    have_one_release: bool

    @classmethod
    def of(cls, present: Iterable[View]) -> _Clusters:
        """Return the clusters of some nodes."""
        contexts = {id(view.context): view.context for view in present}.values()
        names = {context.label or context.plan.spec.name for context in contexts}
        releases = {name for context in contexts for name in context.plan.spec.releases}
        return cls(tuple(sorted(names)), len(releases) < 2)


def _group(view: View, peers: Peers, every: _Clusters) -> str:
    """Return a phrase that names a node's peers in findings: ``of class hgx-h200``."""
    if peers is Peers.ROLE:
        return f"of role {view.plan.role.value}"
    if peers is Peers.NVLINK_DOMAIN:
        return f"of NVLink domain {view.context.labelled(view.plan.node.nvlink_domain)}"
    system = "" if every.have_one_release else f" on {view.plan.release.name}"
    if peers in (Peers.CLUSTER, Peers.OS):
        return f"of cluster {' and '.join(every.names)}{system if peers is Peers.OS else ''}"
    name = view.plan.hardware.name
    redefined = f" of {view.context.label}" if name in view.context.redefined else ""
    return f"of class {name}{redefined}{system}"


def _agreeing(nodes: int, of: int, group: str) -> str:
    """Return how many peers agree, as text; include the total if two or more disagree."""
    agree = f"{nodes} of {count(of, 'node')}" if nodes < of - 1 else count(nodes, "node")
    return f"{Reference.PEERS.value}: {agree} {group}"
