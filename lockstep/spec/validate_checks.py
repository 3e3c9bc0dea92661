"""Validates a site's rules and overrides against the built-in rules and readings."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator

from lockstep.catalog import checks as known
from lockstep.nearest import did_you_mean, one_of
from lockstep.spec.checks import EACH, Checks, NotCompared, Override, SiteRule
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem, Relation, violated

NUMBERS = ("within", "growth")
"""Kinds of rules that have a tolerance."""
COMPARED = ("equal", "slots", "absolute")
"""Kinds of rules that can compare readings with a value from the description."""
DOMAIN = "fingerprint."
"""Rules whose names begin so compare a domain of the fingerprint."""
FILLED_IN = ("inventory", "node", "role", "address", "device", "expected", "value")


def check_problems(checks: Checks) -> Iterator[Problem]:
    """Yield the problems of a site's rules and overrides that do not depend on its hardware."""
    for number, override in enumerate(checks.overrides):
        earlier = checks.overrides[:number]
        yield from violated(("checks", "overrides", number), *_override(override, earlier))
    for number, row in enumerate(checks.exceptions):
        yield from violated(("checks", "exceptions", number), *_exception(row))
    ids = [rule.id for rule in checks.rules]
    for number, rule in enumerate(checks.rules):
        yield from violated(
            ("checks", "rules", number),
            (rule.id in ids[:number], ("id",), rule.id, "a unique id"),
            (
                rule.path.count(EACH) > 1,
                ("path",),
                ", ".join(rule.path),
                f"{EACH!r} at most once",
            ),
            *_kind(rule),
            *_repair(rule),
            *_local(rule),
        )
        if rule.reading not in known.READINGS:
            near = did_you_mean(rule.reading, known.READINGS, "a reading")
            allowed = f"{near} (docs/record.schema.json)"
            yield Problem(("checks", "rules", number, "reading"), rule.reading, allowed)


def _exception(row: NotCompared) -> Iterable[Relation]:
    domains = [rule.removeprefix(DOMAIN) for rule in known.RULES if rule.startswith(DOMAIN)]
    try:
        re.compile(row.object)
        wrong = ""
    except re.error as error:
        wrong = f"{row.object}: {error}"
    return [
        (row.domain not in domains, ("domain",), row.domain, one_of(row.domain, domains)),
        (bool(wrong), ("object",), wrong, "a regular expression"),
    ]


def class_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find hardware classes that rules or overrides name but the cluster does not define."""
    for field in ("overrides", "rules"):
        for number, one in enumerate(getattr(cluster.checks, field)):
            for index, name in enumerate(one.classes):
                if name not in cluster.hardware:
                    path = ("checks", field, number, "classes", index)
                    yield Problem(path, name, one_of(name, cluster.hardware))


def _override(override: Override, before: Iterable[Override]) -> Iterable[Relation]:
    rule, off = override.rule, override.off is not None
    if rule not in known.RULES:
        near = did_you_mean(rule, known.RULES, "a rule")
        return [(True, ("rule",), rule, f"{near} (lockstep rules)")]
    earlier = [
        number
        for number, other in enumerate(before)
        if other.rule == rule
        and ({*override.classes} & {*other.classes} or not (override.classes and other.classes))
    ]
    changed = override.severity is not None or override.tolerance is not None
    return (
        (
            rule == "node.reachable",
            ("rule",),
            rule,
            "another rule: unreachable nodes are always reported",
        ),
        (
            not off and not changed,
            (),
            f"no change to {rule}",
            "off (with the reason), severity or tolerance",
        ),
        (
            off and changed,
            (),
            "off, and severity or tolerance",
            "either off, or severity and tolerance",
        ),
        (
            earlier,
            ("rule",),
            rule,
            "one override per rule and class; "
            f"overrides[{min(earlier, default=0)}] already changes this rule",
        ),
        _tolerance(known.RULES[rule], override.tolerance),
    )


def _kind(rule: SiteRule) -> Iterable[Relation]:
    kind, expected, bounded = rule.kind, rule.expected, rule.kind in ("within", "absolute")
    number = isinstance(expected, int | float) and not isinstance(expected, bool)
    return (
        (
            kind == "absolute" and not number,
            ("expected",),
            repr(expected),
            "a number: the bound that kind absolute needs",
        ),
        (
            expected is not None and kind not in COMPARED,
            ("expected",),
            repr(expected),
            f"leave it out: only the kinds {', '.join(COMPARED)} have an expected value",
        ),
        (
            bounded == (rule.bound is None),
            ("bound",),
            rule.bound or "not set",
            "at least or at most" if bounded else f"leave it out: kind {kind} has no bound",
        ),
        (
            kind == "within" and rule.tolerance is None,
            ("tolerance",),
            "not set",
            "a fraction of the peers' median, such as 0.05",
        ),
        _tolerance(kind, rule.tolerance),
    )


def _tolerance(kind: str, tolerance: float | None) -> Relation:
    return (
        tolerance is not None and kind not in NUMBERS,
        ("tolerance",),
        f"{tolerance or 0:g}",
        f"leave it out: only the kinds {' and '.join(NUMBERS)} have a tolerance",
    )


def _repair(rule: SiteRule) -> Iterable[Relation]:
    allowed = "text; the only names allowed in braces are " + ", ".join(FILLED_IN)
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(rule.repair)]
    except ValueError as error:
        return [(True, ("repair",), rule.repair, f"{allowed} ({error})")]
    return [(name not in (None, *FILLED_IN), ("repair",), f"{{{name}}}", allowed) for name in names]


def _local(rule: SiteRule) -> Iterable[Relation]:
    field, found = ("local",), f"{rule.local} for "
    return (
        (
            rule.local and (rule.expected is None or rule.kind not in COMPARED),
            field,
            f"{found}kind {rule.kind}",
            f"one of the kinds {', '.join(COMPARED)}, with an expected value: "
            "a node cannot see its peers",
        ),
        (
            rule.local and EACH in rule.path,
            field,
            f"{found}path {', '.join(rule.path)}",
            f"a path without {EACH!r}; no path at all selects every item",
        ),
        (
            rule.local and rule.reading in known.ASKED_BY_NAME,
            field,
            f"{found}reading {rule.reading}",
            "a reading that the node check takes; only lockstep check takes this one",
        ),
    )
