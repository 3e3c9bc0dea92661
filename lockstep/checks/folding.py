"""Folds findings: consequences into their cause, equal findings on several devices into one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from lockstep.catalog.os import of_debian
from lockstep.checks.raw_findings import NO_GROWTH, RawFinding
from lockstep.checks.rule import At, Cause, Effect
from lockstep.report import Finding, Status, alike, fold

NUMBERED = re.compile(r"[a-z][a-z0-9_]*\d")
"""Matches the names of GPUs and adapters: ``gpu3``, ``mlx5_0``."""
NAMED_DEVICES = 8
"""Maximum number of affected devices named per rule; if there are more, only a count is shown."""

ONE_REASON = Cause("*", tag=NO_GROWTH, of=Effect(unread=True, tag=NO_GROWTH))
"""If a node's counters cannot be compared with an earlier record, for example because its clock
was set back, one growth rule reports this for all of them."""


def folded(found: list[RawFinding]) -> list[RawFinding]:
    """Join the findings about a node that differ only in the device number; keep all others."""
    return [
        group[0] if len(group) == 1 else _joined(group)
        for group in alike(found, _without_number).values()
    ]


def _without_number(raw: RawFinding) -> Finding:
    """Return the finding, with device and repair blanked if the device is numbered."""
    listed = raw.rule.look.devices is not None
    numbered = listed and NUMBERED.fullmatch(raw.finding.device) is not None
    return replace(raw.finding, device="*", repair="") if numbered else raw.finding


def _joined(group: list[RawFinding]) -> RawFinding:
    devices = frozenset(raw.finding.device for raw in group)
    finding = replace(group[0].finding, device=fold(devices))
    return replace(group[0], finding=finding, devices=devices)


Heads = Mapping[At, Mapping[str, str]]
"""Place of a cause -> node -> the head that is meant."""


def explain(found: list[RawFinding], controllers: Heads) -> list[RawFinding]:
    """Return the findings that are not consequences; each cause lists its consequences.

    Args:
        found: the findings of all rules.
        controllers: the heads that run slurmctld, or Kubernetes' control plane, for each node.
    """
    roots = _roots(found, controllers)
    if any(raw.sides for raw in found):
        # Once its cause is known, an undecided finding explains only findings on the cause's nodes.
        found = [_settled(raw, found[roots[index]]) for index, raw in enumerate(found)]
        roots = _roots(found, controllers)
    together = alike(range(len(found)), roots.__getitem__)
    return [
        _with_effects(found[root], [found[index] for index in together[root]])
        for root in sorted(together)
    ]


def _settled(raw: RawFinding, cause: RawFinding) -> RawFinding:
    """Limit an undecided finding to the nodes on which its cause was found."""
    side = raw.nodes & cause.nodes
    return replace(raw, nodes=side) if raw.sides and side else raw


def _roots(found: list[RawFinding], controllers: Heads) -> list[int]:
    """Return, for each finding, the index of its root cause, or its own index if it has none."""
    by_node: dict[str, list[int]] = {}
    for index, raw in enumerate(found):
        for node in raw.nodes:
            by_node.setdefault(node, []).append(index)
    parent: dict[int, int] = {}
    for index, raw in enumerate(found):
        causes = (*raw.rule.explained_by, ONE_REASON)
        origins = (_explanation(index, one, found, by_node, controllers) for one in causes)
        if (origin := next((one for one in origins if one is not None), None)) is not None:
            parent[index] = origin

    def root(index: int) -> int:
        seen: list[int] = []
        while index in parent and index not in seen:
            seen.append(index)
            index = parent[index]
        # If findings explain each other in a circle, one of them must stay.
        return min(seen[seen.index(index) :]) if index in seen else index

    return [*map(root, range(len(found)))]


def _with_effects(cause: RawFinding, together: list[RawFinding]) -> RawFinding:
    """Return the cause with its effects added to the detail; ``together`` includes the cause."""
    also = ", ".join(
        named
        for rule, raws in alike(together, lambda raw: raw.finding.rule).items()
        for named in _named(rule, [raw for raw in raws if raw is not cause], cause.nodes)
    )
    parts = (cause.finding.detail, f"also causes: {also}" if also else "")
    detail = "; ".join(part for part in parts if part)
    return replace(cause, finding=replace(cause.finding, detail=detail))


def _named(rule: str, effects: list[RawFinding], nodes: frozenset[str]) -> Iterator[str]:
    """Yield one rule's effects as text, naming any nodes on which the cause was not found."""
    several = len({raw.finding.device for raw in effects})
    elsewhere: dict[str, set[str]] = {}
    for raw in effects:
        what = raw.finding.device if several <= NAMED_DEVICES else f"{several} items"
        elsewhere.setdefault(what, set()).update(raw.nodes - nodes)
    for what, others in elsewhere.items():
        yield rule + (f" ({what})" if what else "") + (f" on {fold(others)}" if others else "")


def _explanation(
    index: int,
    cause: Cause,
    found: list[RawFinding],
    by_node: dict[str, list[int]],
    controllers: Heads,
) -> int | None:
    """Return the index of the finding that explains finding ``index`` as its cause, or None."""
    effect = found[index]
    if not _concerns(cause.of, effect):
        return None
    nodes = effect.nodes
    if (heads := controllers.get(cause.at)) is not None:
        nodes = frozenset(heads.get(name, name) for name in nodes)
    parties = (nodes, *effect.sides)
    candidates = {one: None for party in parties for one in by_node.get(min(party), ())}
    return next(
        (
            one
            for one in candidates
            if one != index
            and _explains(cause, found[one], effect)
            and any(party <= found[one].nodes for party in parties)
        ),
        None,
    )


def _explains(cause: Cause, other: RawFinding, effect: RawFinding) -> bool:
    """Return whether one finding explains another, regardless of the nodes."""
    return (
        fnmatchcase(other.finding.rule, cause.rule)
        and cause.device in (None, other.finding.device, of_debian(other.finding.device))
        and (not cause.tag or cause.tag in other.tags)
        and (cause.at is not At.DEVICE or effect.covers <= other.covers)
        # An unread value explains other unread values, never a difference.
        and (
            other.finding.status != Status.UNKNOWN.value
            or effect.finding.status == other.finding.status
        )
    )


def _concerns(effect: Effect, raw: RawFinding) -> bool:
    """Return whether a finding is one of the effects that a cause explains."""
    return (
        effect.device in (None, raw.finding.device)
        and effect.found in raw.finding.found
        and (not effect.unread or raw.finding.status == Status.UNKNOWN.value)
        and (not effect.tag or effect.tag in raw.tags)
    )
