"""Compares counters with an earlier record of the same boot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from pydantic import JsonValue

from lockstep.checks import compare, raw_findings
from lockstep.checks.context import Items, View
from lockstep.checks.raw_findings import NO_GROWTH, RawFinding
from lockstep.checks.rule import Kind, Rule
from lockstep.probe.record import BOOT, Record, Unread
from lockstep.report import Reference, alike, count, fold
from lockstep.when import HOUR_S, span, utc

LEAST_S = 60.0
"""Minimum number of seconds between two records, by the node's clock. If there are fewer, the clock
was set back, or the record given with --earlier is too recent."""


def counter_families(rules: Iterable[Rule]) -> set[str]:
    """Return the families of readings that growth rules compare, such as ``gpu`` and ``rdma``."""
    return {rule.reading.split(".")[0] for rule in rules if rule.kind is Kind.GROWTH}


@dataclass
class GrowthNotes:
    """Counters that cannot be compared; the report mentions them in notes, not in findings."""

    nodes: set[str] = field(default_factory=set)
    without: set[str] = field(default_factory=set)
    """Nodes that have no earlier record of this boot."""
    counters: Counter[str] = field(default_factory=Counter)
    """Node -> number of counters that its earlier record lacks."""
    back: dict[str, float] = field(default_factory=dict)
    """Node -> time of the last record before a reset of its counters."""

    def texts(self, wanted: frozenset[str]) -> Iterator[str]:
        """Yield the notes about the nodes in ``wanted``."""
        nodes, without = self.nodes & wanted, self.without & wanted
        if without:
            have = "has" if len(without) == 1 else "have"
            some = f"{len(without)} of {count(len(nodes), 'node')}"
            yield f"growth: {some} {have} no earlier record of this boot"
        if new := sum(self.counters[name] for name in wanted):
            have = "has" if new == 1 else "have"
            yield f"growth: {count(new, 'counter')} {have} no earlier reading from this boot"
        reset = alike(wanted & self.back.keys(), lambda name: utc(self.back[name]))
        for moment, names in sorted(reset.items()):
            yield (
                f"growth: counters of {fold(names)} were reset after {moment} (a reset of GPUs "
                "or adapters); their growth before the reset is unknown"
            )


def findings(
    rule: Rule,
    view: View,
    items: Mapping[str, JsonValue],
    picked: Callable[[Rule, View], Items],
    notes: GrowthNotes,
) -> Iterator[RawFinding]:
    """Compare a node's counters with those in its earlier record.

    Args:
        rule: a growth rule.
        view: the node with its current record.
        items: device -> current counter.
        picked: returns the same items from the earlier record.
        notes: collects the counters that cannot be compared.
    """
    notes.nodes.add(view.name)
    boot = view.read(BOOT)
    if isinstance(boot, Unread):
        yield _unknown(
            rule,
            view,
            device="",
            found=f"{BOOT} not read: {boot.unread}",
            expected="the node's boot ID",
        )
        return
    earlier = (view.context.before or {}).get(view.plan.name)
    if earlier is None or earlier.get(BOOT) != boot:  # a reboot resets the counters
        notes.without.add(view.name)
        return
    elapsed = view.record.taken_at - earlier.taken_at
    if elapsed < LEAST_S:
        side = "after" if elapsed >= 0 else "before"
        yield _unknown(
            rule,
            view,
            device="",
            found=f"record taken {span(abs(elapsed))} {side} the earlier one, by the node's clock",
            expected=f"at least {span(LEAST_S)} after {utc(earlier.taken_at)}",
        )
        return
    known = picked(rule, replace(view, record=earlier))
    back: dict[str, JsonValue] = {}
    for device, value in items.items():
        old = known.get(device)
        if not compare.is_number(value):
            yield _unknown(rule, view, device, f"not a number: {value!r:.60}", "a counter")
        elif not compare.is_number(old):
            notes.counters[view.name] += 1
        elif value < old:
            back[device] = value
        elif value > old:
            yield from _grown(rule, view, device, old, value, earlier)
    if back:
        yield from _since_reset(rule, view, back, earlier, picked, notes)


def _since_reset(
    rule: Rule,
    view: View,
    items: Mapping[str, JsonValue],
    earlier: Record,
    picked: Callable[[Rule, View], Items],
    notes: GrowthNotes,
) -> Iterator[RawFinding]:
    """Compare reset counters with a more recent record, if there is one."""
    latest = (view.context.latest or {}).get(view.plan.name)
    if latest is None or view.record.taken_at - latest.taken_at < LEAST_S:
        notes.back[view.name] = earlier.taken_at
        return
    known = picked(rule, replace(view, record=latest))
    for device, value in items.items():
        old = known.get(device)
        if compare.is_number(value) and compare.is_number(old) and old <= value:
            yield from _grown(rule, view, device, old, value, latest)
        else:
            notes.back[view.name] = latest.taken_at


def _grown(
    rule: Rule, view: View, device: str, old: float, new: float, earlier: Record
) -> Iterator[RawFinding]:
    elapsed = view.record.taken_at - earlier.taken_at
    per_hour = rule.tolerance_on(view)
    # The growth allowed per hour may come all at once, so a shorter time counts as an hour.
    if new - old <= per_hour * max(1.0, elapsed / HOUR_S):
        return
    show = rule.text.show
    found = f"{show(new)}: {show(new - old)} more in {span(elapsed)}"
    wanted = f"{show(old)}, " + (f"at most {per_hour:g} more per hour" if per_hour else "no more")
    yield raw_findings.difference(
        rule,
        view,
        device,
        texts=(found, wanted),
        reference=f"{Reference.EARLIER.value}, {utc(earlier.taken_at)}",
    )


_unknown = partial(raw_findings.unknown, tags=frozenset({NO_GROWTH}))
