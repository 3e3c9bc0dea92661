"""Counters compared with an earlier record of the same boot: growth, and why it is unknown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from lockstep.checks import compare
from lockstep.checks.context import Items, View
from lockstep.checks.rule import Kind, Rule
from lockstep.probe.record import BOOT, Record, Unread
from lockstep.report import Reference, fold
from lockstep.when import HOUR_S, span, utc

LEAST_S = 60.0
"""Between two records. Less, or less than nothing, and the node's clock was set meanwhile."""


@dataclass(frozen=True)
class ExcessGrowth:
    """A counter that grew by more than its rule allows."""

    device: str
    found: str
    expected: str
    reference: str


@dataclass(frozen=True)
class UnknownGrowth:
    """Why growth is unknown, which is never the same as no growth."""

    device: str
    found: str
    expected: str


def counter_families(rules: Iterable[Rule]) -> set[str]:
    """Return the first words of the readings that growth rules look at: ``gpu``, ``rdma``."""
    return {rule.reading.split(".")[0] for rule in rules if rule.kind is Kind.GROWTH}


@dataclass
class GrowthNotes:
    """Counters without an earlier reading: they give no finding, but a note."""

    nodes: set[str] = field(default_factory=set)
    without: set[str] = field(default_factory=set)
    """Nodes that have no earlier record of this boot."""
    counters: Counter[str] = field(default_factory=Counter)
    """Node -> counters that its earlier record does not have."""
    back: dict[str, float] = field(default_factory=dict)
    """Node -> when the record was taken after which counters went back."""

    def texts(self, wanted: frozenset[str]) -> Iterator[str]:
        """Yield the notes about these nodes."""
        nodes, without = self.nodes & wanted, self.without & wanted
        if without:
            have = "has" if len(without) == 1 else "have"
            some = f"{len(without)} of {len(nodes)} node" + ("s" if len(nodes) != 1 else "")
            yield f"growth: {some} {have} no earlier record of this boot"
        if new := sum(self.counters[name] for name in wanted):
            have = "counter has" if new == 1 else "counters have"
            yield f"growth: {new} {have} no earlier reading in this boot"
        moments = {utc(self.back[name]) for name in wanted & self.back.keys()}
        for moment in sorted(moments):
            names = [name for name in wanted & self.back.keys() if utc(self.back[name]) == moment]
            yield (
                f"growth: counters of {fold(names)} were set back after {moment} (a reset of GPUs "
                "or adapters); their growth until then is not known"
            )


def verdicts(
    rule: Rule,
    view: View,
    items: Mapping[str, JsonValue],
    picked: Callable[[Rule, View], Items],
    notes: GrowthNotes,
) -> Iterator[ExcessGrowth | UnknownGrowth]:
    """Compare a node's counters with its earlier record.

    Args:
        rule: of kind growth.
        view: the node now.
        items: device -> counter now, all of them read.
        picked: gives the same items of the earlier record.
        notes: collects what was not judged.
    """
    notes.nodes.add(view.name)
    boot = view.read(BOOT)
    if isinstance(boot, Unread):
        yield UnknownGrowth(
            "", f"{BOOT} not read: {boot.unread}", "a boot to which counters belong"
        )
        return
    earlier = (view.context.before or {}).get(view.plan.name)
    if earlier is None or earlier.get(BOOT) != boot:  # a boot resets counters
        notes.without.add(view.name)
        return
    elapsed = view.record.taken_at - earlier.taken_at
    if elapsed < LEAST_S:
        yield _clock_set(earlier, elapsed)
        return
    known = picked(rule, replace(view, record=earlier))
    back: dict[str, JsonValue] = {}
    for device, value in items.items():
        old = known.get(device)
        if not compare.is_number(value):
            yield UnknownGrowth(device, f"not a number: {value!r:.60}", "a counter")
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
) -> Iterator[ExcessGrowth]:
    """Compare counters that went back with a later record, once there is one."""
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
) -> Iterator[ExcessGrowth]:
    elapsed = view.record.taken_at - earlier.taken_at
    per_hour = rule.tolerance_on(view)
    # A whole hour's growth may come at once: a shorter time gives no rate.
    if new - old <= per_hour * max(1.0, elapsed / HOUR_S):
        return
    more = f"at most {per_hour:g} more an hour" if per_hour else "no more"
    yield ExcessGrowth(
        device,
        f"{rule.text.show(new)}: {rule.text.show(new - old)} more in {span(elapsed)}",
        f"{rule.text.show(old)}, {more}",
        f"{Reference.EARLIER.value}, {utc(earlier.taken_at)}",
    )


def _clock_set(earlier: Record, elapsed: float) -> UnknownGrowth:
    side = "after" if elapsed >= 0 else "before"
    return UnknownGrowth(
        "",
        f"by the node's clock, taken {span(abs(elapsed))} {side} the earlier record",
        f"at least {span(LEAST_S)} after {utc(earlier.taken_at)}",
    )
