"""How a difference of an object is shown."""

from __future__ import annotations

import difflib

from lockstep.checks.fingerprint.objects import Fields

LINES = 10
"""At most so many lines of a difference are shown."""
LONGEST = 120
"""Characters of a value that are shown."""
ABSENT = "absent"


def found(one: Fields | None, other: Fields | None) -> str:
    """Return what one side has and the other has not, in one line."""
    if one is None:
        return ABSENT
    if other is None:
        return _short(", ".join(f"{name} {_line(value)}" for name, value in sorted(one.items())))
    parts = [_field(name, one.get(name), other.get(name)) for name in _names(one, other)]
    return _short("; ".join(parts))


def detail(wrong: Fields | None, right: Fields | None) -> str:
    """Return up to ten lines that differ in texts of several lines; "" if there are none."""
    if wrong is None or right is None:
        return ""
    lines = [
        _short(line)
        for name in _names(wrong, right)
        if "\n" in wrong.get(name, "") + right.get(name, "")
        for line in difflib.unified_diff(
            right.get(name, "").splitlines(), wrong.get(name, "").splitlines(), lineterm="", n=0
        )
        if not line.startswith(("---", "+++", "@@"))
    ]
    more = f" | and {len(lines) - LINES} more" if len(lines) > LINES else ""
    return " | ".join(lines[:LINES]) + more


def _names(one: Fields, other: Fields) -> list[str]:
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]


def _field(name: str, value: str | None, other: str | None) -> str:
    if value is None:
        return f"no {name}"
    if "\n" not in value + (other or ""):
        return f"{name} {_line(value)}"
    own = [line for line in value.splitlines() if line not in (other or "").splitlines()]
    if len(own) == 1:
        return f"{name}: {own[0].strip()}"
    return f"{name}: {len(own)} other lines" if own else f"{name}: lines are missing"


def _line(value: str) -> str:
    return value if value and "\n" not in value else repr(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
