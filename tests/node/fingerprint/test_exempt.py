"""Exceptions match exactly what their patterns match, although few of them are compiled."""

from __future__ import annotations

import re

import pytest

from lockstep.node.fingerprint.entry import Entry, Fields
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import (
    WHOLE,
    Exempt,
    alternatives,
    beginning,
    by_domain,
    without_exceptions,
)

FIELDS = {"content": "x", "mode": "644"}
NAMES = (
    *("/etc/ssh/a", "/etc/sshd", "/etc/ssh", "/etc/hostname", "/etc/hostname/x", "/etc/hostnamex"),
    *("/opt/a.b", "/opt/aXb", "/opt/ab", "/opt/abb", "/opt/abab", "/OPT/AB", "/opt/a|b", "/opt/]b"),
    *("", "x", "/etc", "/opt/a\nb"),
)


def plainly(rows: list[Exempt], name: str) -> Fields | None:
    dropped = {row.field for row in rows if re.fullmatch(row.object, name)}
    if WHOLE in dropped:
        return None
    return {field: value for field, value in FIELDS.items() if field not in dropped}


@pytest.mark.parametrize(
    "patterns",
    [
        [r"/etc/ssh/.*"],
        [r"/etc/hostname"],
        [r"/etc/hostname|/opt/ab"],
        [r"/etc/(hostname|ssh)x?"],
        [r"/etc/hostnamex?"],
        [r"/opt/ab*", r"/opt/a\.b"],
        [r"/opt/abb{0,1}"],
        [r"/opt/(ab)+"],
        [r"/opt/(ab)\1|/etc/ssh"],
        [r"/etc/hostname|/opt/(a)\1"],
        [r"(x)|/opt/(ab)\2"],
        [r".*b", r"/opt/a\.b"],
        [r"(?i)/opt/ab"],
        [r"/opt/a[|]b|/etc/ssh"],
        [r"/opt/[]|a]b"],
        [r"/opt/[^]]b|x"],
        [r"/opt/a\|b"],
        [r".*b", r"/opt/.*"],
        [r"/opt/a\wb"],
        [r"|x"],
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_rows_match_what_their_patterns_match(patterns: list[str], name: str) -> None:
    fields = ("content", WHOLE)
    rows = [Exempt("file", text, fields[at], "") for at, text in enumerate(patterns)]
    found = without_exceptions("file", Entry(name, dict(FIELDS)), by_domain(rows))
    assert found == plainly(rows, name)


def test_other_domains_have_none() -> None:
    table = by_domain([Exempt("unit", ".*", WHOLE, "")])
    assert without_exceptions("file", Entry("x", FIELDS), table) == FIELDS


@pytest.mark.parametrize(
    ("pattern", "begins"),
    [
        (r"/etc/a\.b", "/etc/a.b"),
        (r"/etc/ab*", "/etc/a"),
        (r"/etc/ab+", "/etc/ab"),
        (r"/etc/a\d", "/etc/a"),
        (r"/etc/(a|b)", "/etc/"),
        (r".*", ""),
    ],
)
def test_what_names_begin_with(pattern: str, begins: str) -> None:
    assert beginning(pattern) == begins


def test_most_rows_are_found_by_their_beginning() -> None:
    """Each other one is compiled in every run."""
    table = by_domain(EXCEPTIONS)
    found = sum(len(rows) for one in table.values() for rows in one.by_beginning.values())
    others = sum(len(one.others) for one in table.values())
    assert found > 2 * others


def test_an_alternation_is_split_only_at_its_top() -> None:
    assert alternatives(r"a|b(c|d)|[|]e") == ["a", "b(c|d)", "[|]e"]
