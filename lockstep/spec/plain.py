"""Validates the values of a description before their types: text, numbers, sizes.

What is refused here is refused in every field, also in fields that are added later: characters
that end a line or that a terminal obeys, numbers that no program can store, and descriptions that
are too deep or too large to be answered.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from netaddr import IPAddress, IPNetwork
from pydantic import BaseModel

from lockstep.spec.problem import Path, Problem

LONGEST_TEXT = 4096
"""Characters in a text; PATH_MAX of Linux (linux/limits.h), and below the 4,300 digits that Python
turns into a number."""
LONGEST_KEY = 1 << 20
"""Characters in the text of a repository's key: an armored key with many signatures."""
LARGEST_NUMBER = (1 << 63) - 1
DEEPEST = 20
"""Dictionaries and lists inside each other."""
MOST_VALUES = 1_000_000
"""Values in a description; 30,000 nodes with a group of their own have a third of them."""

_LINE_BREAKS = str.maketrans("", "", "\n\t")


def plain_problems(description: object) -> list[Problem]:
    """Return the problems of a description's values, whatever fields they belong to.

    Args:
        description: the dictionary from an inventory, or anything else that an inventory passed.
    """
    if not isinstance(description, Mapping):
        return [Problem((), type(description).__name__, "a dictionary, in { }")]
    problems: list[Problem] = []
    # Not recursive: a description may contain itself.
    left: list[tuple[Path, object]] = [((), description)]
    seen = 0
    while left:
        path, value = left.pop()
        seen += 1
        if seen > MOST_VALUES:
            return [Problem((), "more values", f"at most {MOST_VALUES:,} values in a description")]
        problems += _value(path, value)
        if isinstance(value, Mapping | list | tuple):
            if len(path) >= DEEPEST:
                allowed = f"at most {DEEPEST} dictionaries and lists inside each other"
                problems.append(Problem(path, "deeper ones", allowed))
                continue
            if not isinstance(value, Mapping):
                left += (((*path, number), item) for number, item in enumerate(value))
                continue
            for key, item in value.items():
                wrong = [*_key(path, key)]
                problems += wrong
                if not wrong:  # a wrong key would be shown as a part of the path
                    left.append(((*path, key), item))
    return sorted(problems, key=lambda one: [str(key) for key in one.path])


def _key(path: Path, key: object) -> Iterator[Problem]:
    if isinstance(key, bool) or not isinstance(key, str | int):
        yield Problem(path, f"the key {_shown(key)}", "text as the key")
    elif isinstance(key, str) and (len(key) > LONGEST_TEXT or not key.isprintable()):
        allowed = f"a key of printable characters, {LONGEST_TEXT:,} at most"
        yield Problem(path, f"the key {_shown(key)}", allowed)


def _value(path: Path, value: object) -> Iterator[Problem]:
    match value:
        case None | bool() | Mapping() | list() | tuple() | enum.Enum() | BaseModel():
            return
        case IPAddress() | IPNetwork():
            return
        case str() | PurePath():
            yield from _text(path, str(value))
        case int():
            if abs(value) > LARGEST_NUMBER:
                found = f"a number of {value.bit_length()} bits"
                yield Problem(path, found, "a number between -2^63 and 2^63")
        case float():
            if not math.isfinite(value):
                yield Problem(path, repr(value), "a number that is finite")
        case _ if path[:1] != ("extensions",):
            found = type(value).__name__
            allowed = "text, a number, True, False, None, a list or a dictionary"
            yield Problem(path, found, allowed)


def _text(path: Path, text: str) -> Iterator[Problem]:
    match path:
        case ["software", "repositories", int(), "key"]:
            longest, lines = LONGEST_KEY, True
        case ["software", "module_signing", "certificate"] | ["files", _, "content"]:
            longest, lines = LONGEST_KEY, True
        case ["extensions", *_] | ["checks", "rules", int(), "expected", *_]:
            longest, lines = LONGEST_KEY, True
        case ["os", "sysctl", _]:
            # The kernel separates numbers with tabs, as in net.ipv4.tcp_rmem.
            longest, lines, text = LONGEST_TEXT, False, text.replace("\t", " ")
        case _:
            longest, lines = LONGEST_TEXT, False
    if len(text) > longest:
        yield Problem(path, f"{len(text):,} characters", f"text of at most {longest:,} characters")
    elif not (text.translate(_LINE_BREAKS) if lines else text).isprintable():
        allowed = "printable characters" + (", line breaks and tabs" if lines else " on one line")
        yield Problem(path, _shown(text), allowed)


def _shown(value: object) -> str:
    """Return a value as a report can show it, without the characters that it should not have."""
    if isinstance(value, str):
        at = next((n for n, one in enumerate(value) if not one.isprintable()), 0)
        start = max(0, at - 80)
        return ascii(value[start : at + 80])
    return type(value).__name__
