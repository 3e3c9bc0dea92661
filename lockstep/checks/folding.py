"""One drift, one finding: consequences are folded into their cause, equal devices into one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from lockstep.checks.cause import At, Cause, Effect
from lockstep.checks.raw_findings import NO_GROWTH, RawFinding
from lockstep.report import Finding, Status, fold

NUMBERED = re.compile(r"[a-z][a-z0-9_]*\d")
"""GPUs and adapters, ``gpu3`` and ``mlx5_0``, in rules that list the existing devices."""
NAMED_DEVICES = 8
"""Up to this many consequences of one rule are named one by one."""

ONE_REASON = Cause("*", tag=NO_GROWTH, of=Effect(unread=True, tag=NO_GROWTH))
"""A clock that was set, or counters that were reset, are one cause for all growth rules."""


def folded(found: list[RawFinding]) -> list[RawFinding]:
    """Return the findings; numbered devices of one node with the same difference become one."""
    alike: dict[Finding, list[RawFinding]] = {}
    for raw in found:
        finding = raw.finding
        listed = raw.rule.look.devices is not None
        numbered = listed and NUMBERED.fullmatch(finding.device) is not None
        same = replace(finding, device="*", repair="") if numbered else finding
        alike.setdefault(same, []).append(raw)
    merged = []
    for group in alike.values():
        first = group[0]
        if len(group) > 1:
            device = fold(raw.finding.device for raw in group)
            devices = frozenset(raw.finding.device for raw in group)
            finding = replace(first.finding, device=device)
            first = replace(first, finding=finding, devices=devices)
        merged.append(first)
    return merged


def explain(found: list[RawFinding], controllers: Mapping[str, str]) -> list[RawFinding]:
    """Return the findings without mere consequences; their causes name these.

    Args:
        found: by all rules.
        controllers: node -> the node that runs its slurmctld.
    """
    by_node: dict[str, list[int]] = {}
    for index, raw in enumerate(found):
        for node in raw.nodes:
            by_node.setdefault(node, []).append(index)
    parent: dict[int, int] = {}
    for index, raw in enumerate(found):
        for cause in (*raw.rule.explained_by, ONE_REASON):
            explanation = _explanation(index, cause, found, by_node, controllers)
            if explanation is not None:
                parent[index] = explanation
                break

    def root(index: int) -> int:
        seen: list[int] = []
        while index in parent and index not in seen:
            seen.append(index)
            index = parent[index]
        # Rules that explain each other: one of the cycle stays, or the drift would be lost.
        return min(seen[seen.index(index) :]) if index in seen else index

    devices: dict[tuple[int, str], set[str]] = {}
    for index, raw in enumerate(found):
        if (origin := root(index)) != index:
            devices.setdefault((origin, raw.finding.rule), set()).add(raw.finding.device)
    effects: dict[int, dict[str, set[str]]] = {}
    for index, raw in enumerate(found):
        if (origin := root(index)) != index:
            finding = raw.finding
            several = len(devices[origin, finding.rule])
            what = finding.device if several <= NAMED_DEVICES else f"{several} items"
            named = finding.rule + (f" ({what})" if what else "")
            elsewhere = effects.setdefault(origin, {}).setdefault(named, set())
            elsewhere |= raw.nodes - found[origin].nodes
    kept = []
    for index, raw in enumerate(found):
        if root(index) != index:
            continue
        if index in effects:
            also = "hence also: " + ", ".join(
                named + (f" on {fold(elsewhere)}" if elsewhere else "")
                for named, elsewhere in effects[index].items()
            )
            detail = "; ".join(part for part in (raw.finding.detail, also) if part)
            raw = replace(raw, finding=replace(raw.finding, detail=detail))
        kept.append(raw)
    return kept


def _explanation(
    index: int,
    cause: Cause,
    found: list[RawFinding],
    by_node: dict[str, list[int]],
    controllers: Mapping[str, str],
) -> int | None:
    """Return the index of the finding that is this cause of a finding; None: there is none."""
    effect = found[index]
    if not _concerns(cause.of, effect):
        return None
    nodes = effect.nodes
    if cause.at is At.CONTROLLER:
        nodes = frozenset(controllers.get(name, name) for name in nodes)
    unknown = Status.UNKNOWN.value
    parties = (nodes, *effect.sides)
    candidates = {one: None for party in parties for one in by_node.get(min(party), ())}
    for candidate in candidates:
        other = found[candidate]
        if candidate == index or not fnmatchcase(other.finding.rule, cause.rule):
            continue
        if not any(party <= other.nodes for party in parties):
            continue
        if cause.device is not None and other.finding.device != cause.device:
            continue
        if cause.tag and cause.tag not in other.tags:
            continue
        if cause.at is At.DEVICE and not effect.covers <= other.covers:
            continue
        # An unread value explains other unread values, never a difference.
        if other.finding.status == unknown and effect.finding.status != unknown:
            continue
        return candidate
    return None


def _concerns(effect: Effect, raw: RawFinding) -> bool:
    """Say whether a finding is one of those that a cause explains."""
    return (
        effect.device in (None, raw.finding.device)
        and effect.found in raw.finding.found
        and (not effect.unread or raw.finding.status == Status.UNKNOWN.value)
        and (not effect.tag or effect.tag in raw.tags)
    )
