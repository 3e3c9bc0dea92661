"""Validates a site's rules and overrides against the built-in rules and readings."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from lockstep.catalog import checks as known
from lockstep.spec.checks import EACH, Checks, Override, SiteRule
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem

NUMBERS = ("within", "growth")
"""Kinds with a tolerance."""
BOUNDED = ("within", "absolute")
COMPARED = ("equal", "slots", "absolute")
"""Kinds that can compare with a value of the description."""
ALWAYS = "node.reachable"
FILLED_IN = ("inventory", "node", "role", "address", "device", "expected", "value")

Path = tuple[str | int, ...]


def check_problems(checks: Checks) -> Iterator[Problem]:
    """Yield problems of a site's rules that do not depend on its hardware."""
    for number, override in enumerate(checks.overrides):
        path = ("checks", "overrides", number)
        yield from _override(path, override)
        yield from _twice(path, override, checks.overrides[:number])
    ids = [rule.id for rule in checks.rules]
    for number, rule in enumerate(checks.rules):
        path = ("checks", "rules", number)
        if rule.id in ids[:number]:
            yield Problem((*path, "id"), rule.id, "a unique id")
        yield from _reading(path, rule)
        yield from _kind(path, rule)
        yield from _repair(path, rule)
        if rule.local is not None:
            yield from _local(path, rule)


def class_problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield hardware classes that rules name but the cluster does not define."""
    for field in ("overrides", "rules"):
        for number, one in enumerate(getattr(cluster.checks, field)):
            for index, name in enumerate(one.classes):
                if name not in cluster.hardware:
                    path = ("checks", field, number, "classes", index)
                    yield Problem(path, name, _near(name, cluster.hardware))


def _override(path: Path, override: Override) -> Iterator[Problem]:
    rule, changes = override.rule, (override.severity, override.tolerance)
    if rule not in known.RULES:
        yield Problem((*path, "rule"), rule, f"{_near(rule, known.RULES)} (lockstep rules)")
        return
    if rule == ALWAYS:
        yield Problem((*path, "rule"), rule, "another rule: unreachable nodes are always reported")
    if override.off is None and changes == (None, None):
        yield Problem(path, f"no change to {rule}", "off (with the reason), severity or tolerance")
    if override.off is not None and changes != (None, None):
        yield Problem(path, "off, and severity or tolerance", "either off, or the other fields")
    if override.tolerance is not None and known.RULES[rule] not in NUMBERS:
        kind = known.RULES[rule]
        yield Problem((*path, "tolerance"), f"{override.tolerance:g}", _no_tolerance(kind))


def _twice(path: Path, override: Override, before: Iterable[Override]) -> Iterator[Problem]:
    for number, other in enumerate(before):
        shared = {*override.classes} & {*other.classes}
        if other.rule == override.rule and (shared or not (override.classes and other.classes)):
            allowed = f"one override per rule and class; overrides[{number}] already changes it"
            yield Problem((*path, "rule"), override.rule, allowed)
            return


def _reading(path: Path, rule: SiteRule) -> Iterator[Problem]:
    if rule.reading not in known.READINGS:
        allowed = f"{_near(rule.reading, known.READINGS)} (docs/record.schema.json)"
        yield Problem((*path, "reading"), rule.reading, allowed)
    if rule.path.count(EACH) > 1:
        yield Problem((*path, "path"), ", ".join(rule.path), f"{EACH!r} at most once")


def _kind(path: Path, rule: SiteRule) -> Iterator[Problem]:
    kind, expected = rule.kind, rule.expected
    number = isinstance(expected, int | float) and not isinstance(expected, bool)
    if kind == "absolute" and not number:
        yield Problem((*path, "expected"), repr(expected), "a number: the bound of kind absolute")
    if expected is not None and kind not in COMPARED:
        allowed = f"leave it out: kind {kind} compares records; use it with {', '.join(COMPARED)}"
        yield Problem((*path, "expected"), repr(expected), allowed)
    if (rule.bound is None) == (kind in BOUNDED):
        allowed = "at least or at most" if kind in BOUNDED else f"no bound for kind {kind}"
        yield Problem((*path, "bound"), rule.bound or "not set", allowed)
    if kind == "within" and rule.tolerance is None:
        allowed = "a share of the peers' median, such as 0.05"
        yield Problem((*path, "tolerance"), "not set", allowed)
    if kind not in NUMBERS and rule.tolerance is not None:
        yield Problem((*path, "tolerance"), f"{rule.tolerance:g}", _no_tolerance(kind))


def _repair(path: Path, rule: SiteRule) -> Iterator[Problem]:
    allowed = "text; the only names allowed in braces are " + ", ".join(FILLED_IN)
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(rule.repair)]
    except ValueError as error:
        yield Problem((*path, "repair"), rule.repair, f"{allowed} ({error})")
        return
    for name in names:
        if name is not None and name not in FILLED_IN:
            yield Problem((*path, "repair"), f"{{{name}}}", allowed)


def _local(path: Path, rule: SiteRule) -> Iterator[Problem]:
    found = f"{rule.local} for "
    if rule.expected is None or rule.kind not in COMPARED:
        kinds = ", ".join(COMPARED)
        allowed = f"a rule of kind {kinds} with expected: a node cannot see its peers"
        yield Problem((*path, "local"), f"{found}kind {rule.kind}", allowed)
    if EACH in rule.path:
        allowed = f"a path without {EACH!r}, or no path, which selects every item"
        yield Problem((*path, "local"), f"{found}path {', '.join(rule.path)}", allowed)
    if rule.reading in known.ASKED_BY_NAME:
        allowed = "a reading that the node's own check takes; only lockstep check takes this one"
        yield Problem((*path, "local"), f"{found}reading {rule.reading}", allowed)


def _no_tolerance(kind: str) -> str:
    return f"no tolerance for kind {kind}; only {' and '.join(NUMBERS)} have one"


def _near(name: str, names: Iterable[str]) -> str:
    """Return the most similar names."""
    return "such as " + ", ".join(get_close_matches(name, list(names), n=3, cutoff=0.0))
