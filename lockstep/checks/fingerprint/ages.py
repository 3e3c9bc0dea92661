"""How old the domains are that nodes read once a day at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lockstep.checks.context import View
from lockstep.checks.fingerprint.places import Taken
from lockstep.checks.raw_findings import RawFinding
from lockstep.node.fingerprint.slow import NAMES as SLOW
from lockstep.report import fold
from lockstep.when import MINUTE_S, span


def with_age(
    raw: RawFinding, domain: str, views: Mapping[str, View], taken: Mapping[str, Taken]
) -> RawFinding:
    """Return a finding with the time since its nodes were read, if that was not in this check."""
    ages = {
        name: views[name].record.taken_at - taken[name].slow[domain]
        for name in raw.nodes
        if name in taken and domain in taken[name].slow
    }
    if not ages or max(ages.values()) < MINUTE_S:
        return raw
    oldest = max(ages, key=lambda name: (ages[name], name))
    line = f"compared as read {span(ages[oldest])} before this check on {oldest}"
    lines = [*raw.finding.detail.splitlines(), line]
    return replace(raw, finding=replace(raw.finding, detail="\n".join(lines)))


def never_read(taken: Mapping[str, Taken]) -> Iterator[str]:
    """Yield the nodes on which a domain was not read at all."""
    for name, found in taken.items():
        if not found.slow.keys() >= SLOW:
            yield name


def text(nodes: set[str]) -> str:
    """Return the note about nodes on which the domains were not read."""
    return (
        "programs below /usr and login shells were not compared, which --slow does: "
        f"{fold(nodes)} ({' and '.join(sorted(SLOW))})"
    )
