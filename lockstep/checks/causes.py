"""One drift, one finding: consequences are folded into their cause, equal devices into one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from lockstep.checks.rule import Cause, Rule
from lockstep.report import Finding, Status, fold


@dataclass(frozen=True)
class Draft:
    """A finding with its nodes written out."""

    finding: Finding
    nodes: frozenset[str]
    rule: Rule
    grounds: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()
    """Of several made one."""
    sides: tuple[frozenset[str], ...] = ()
    """Where nobody is blamed: who has the one value, who the other. A cause on all nodes of one
    side explains that they differ."""

    @property
    def covers(self) -> frozenset[str]:
        """The devices it speaks of, one by one."""
        return self.devices or frozenset({self.finding.device})


NUMBERED = re.compile(r"[a-z][a-z0-9_]*\d")
"""Boards and adapters, ``gpu3`` and ``mlx5_0``, in rules that know which devices there are."""
NAMED_DEVICES = 8
"""Up to this many consequences of one rule are named one by one."""

NO_GROWTH = "no growth"
"""Grounds of a finding that growth could not be told on its node."""
ONE_REASON = Cause("*", only_unread=True, grounds=NO_GROWTH, with_grounds=NO_GROWTH)
"""A clock that was set, or counters that began anew, are one thing for all rules of growth."""


def folded(drafts: list[Draft]) -> list[Draft]:
    """Return the drafts with numbered devices of one node that differ alike made one."""
    alike: dict[Finding, list[Draft]] = {}
    for draft in drafts:
        finding = draft.finding
        listed = draft.rule.devices is not None
        numbered = listed and NUMBERED.fullmatch(finding.device) is not None
        same = replace(finding, device="*", repair="") if numbered else finding
        alike.setdefault(same, []).append(draft)
    found = []
    for group in alike.values():
        first = group[0]
        if len(group) > 1:
            device = fold(draft.finding.device for draft in group)
            devices = frozenset(draft.finding.device for draft in group)
            finding = replace(first.finding, device=device)
            first = replace(first, finding=finding, devices=devices)
        found.append(first)
    return found


def explain(drafts: list[Draft], controllers: Mapping[str, str]) -> list[Draft]:
    """Return the drafts without mere consequences, which are named in their cause.

    Args:
        drafts: of all rules.
        controllers: node -> the node that runs its slurmctld.
    """
    by_node: dict[str, list[int]] = {}
    for index, draft in enumerate(drafts):
        for node in draft.nodes:
            by_node.setdefault(node, []).append(index)
    parent: dict[int, int] = {}
    for index, draft in enumerate(drafts):
        for cause in (*draft.rule.explained_by, ONE_REASON):
            found = _cause(index, cause, drafts, by_node, controllers)
            if found is not None:
                parent[index] = found
                break

    def root(index: int) -> int:
        seen: list[int] = []
        while index in parent and index not in seen:
            seen.append(index)
            index = parent[index]
        # Rules that explain each other: one of the round stays, or a drift would go unnamed.
        return min(seen[seen.index(index) :]) if index in seen else index

    devices: dict[tuple[int, str], set[str]] = {}
    for index, draft in enumerate(drafts):
        if (origin := root(index)) != index:
            devices.setdefault((origin, draft.finding.rule), set()).add(draft.finding.device)
    effects: dict[int, dict[str, set[str]]] = {}
    for index, draft in enumerate(drafts):
        if (origin := root(index)) != index:
            finding = draft.finding
            several = len(devices[origin, finding.rule])
            what = finding.device if several <= NAMED_DEVICES else f"{several} items"
            named = finding.rule + (f" ({what})" if what else "")
            elsewhere = effects.setdefault(origin, {}).setdefault(named, set())
            elsewhere |= draft.nodes - drafts[origin].nodes
    kept = []
    for index, draft in enumerate(drafts):
        if root(index) != index:
            continue
        if index in effects:
            also = "hence also: " + ", ".join(
                named + (f" on {fold(elsewhere)}" if elsewhere else "")
                for named, elsewhere in effects[index].items()
            )
            detail = "; ".join(part for part in (draft.finding.detail, also) if part)
            draft = replace(draft, finding=replace(draft.finding, detail=detail))
        kept.append(draft)
    return kept


def _cause(
    index: int,
    cause: Cause,
    drafts: list[Draft],
    by_node: dict[str, list[int]],
    controllers: Mapping[str, str],
) -> int | None:
    effect = drafts[index]
    if cause.grounds and cause.grounds not in effect.grounds:
        return None
    nodes = effect.nodes
    if cause.on_controller:
        nodes = frozenset(controllers.get(name, name) for name in nodes)
    unknown = Status.UNKNOWN.value
    parties = (nodes, *effect.sides)
    candidates = {one: None for party in parties for one in by_node.get(min(party), ())}
    for candidate in candidates:
        other = drafts[candidate]
        if candidate == index or not fnmatchcase(other.finding.rule, cause.rule):
            continue
        if not any(party <= other.nodes for party in parties):
            continue
        if cause.device is not None and other.finding.device != cause.device:
            continue
        if cause.only_unread and effect.finding.status != unknown:
            continue
        if cause.says not in effect.finding.found:
            continue
        if cause.with_grounds and cause.with_grounds not in other.grounds:
            continue
        if cause.of_device not in (None, effect.finding.device):
            continue
        if cause.same_device and not effect.covers <= other.covers:
            continue
        # What could not be read explains what could not be read, never what differs.
        if other.finding.status == unknown and effect.finding.status != unknown:
            continue
        return candidate
    return None
