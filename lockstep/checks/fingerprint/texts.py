"""How a difference of an object is shown."""

from __future__ import annotations

import difflib
import re

from lockstep.checks.fingerprint.decide import NO_PACKAGE, PACKAGE, SHIPPED
from lockstep.checks.fingerprint.objects import Fields

LINES = 10
"""At most so many lines of a difference are shown."""
LONGEST = 120
"""Characters of a value that are shown."""
ABSENT = "absent"
AS_SHIPPED = "as the package ships it"
USUAL = "usual owner and rights"
"""Of a file that may be as its package ships it: dpkg does not know owners and modes."""
CONTENT = "content"
SECRET = re.compile(
    r"pass|pwd|secret|token|credential|private|api.?key|bearer|://[^/@\s]+:[^/@\s]+@", re.IGNORECASE
)
HIDDEN = "(a line that may have a secret)"


def found(one: Fields | None, other: Fields | None) -> str:
    """Return what one side has and the other has not, in one line."""
    if one is None:
        return ABSENT
    if other is None:
        # The content may be protected on the other side.
        kept = {name: value for name, value in one.items() if name != CONTENT}
        own = (f"{name} {_line(value)}" for name, value in sorted(kept.items()))
        return _short(", ".join(own)) or "present"
    parts = [_field(name, one.get(name), other.get(name)) for name in differing_fields(one, other)]
    return _short("; ".join(parts))


def not_listed(other: Fields, uneven: frozenset[str]) -> str:
    """Return how a side is shown that lacks an object which others have in the domain ``program``.

    There, a file of a package is only an object where something about it deviates or is unusual.

    Args:
        other: the fields on another side.
        uneven: packages that are installed on some nodes only. Others may lack their files.
    """
    package = other.get(PACKAGE, NO_PACKAGE)
    if package == NO_PACKAGE or package in uneven:
        return ABSENT
    return AS_SHIPPED if SHIPPED in other or other.get("type") == ABSENT else USUAL


def detail(wrong: Fields | None, right: Fields | None, sep: str = " | ") -> str:
    """Return up to ten lines that differ in texts of several lines; "" if there are none."""
    if wrong is None or right is None:
        return ""
    lines = [
        _short(_shown(line))
        for name in differing_fields(wrong, right)
        if "\n" in wrong.get(name, "") + right.get(name, "")
        for line in [
            *difflib.unified_diff(
                right.get(name, "").splitlines(), wrong.get(name, "").splitlines(), lineterm="", n=0
            )
        ][2:]  # without the names of the sides
        if not line.startswith("@@")
    ]
    more = [f"and {len(lines) - LINES} more"] if len(lines) > LINES else []
    return sep.join([*lines[:LINES], *more])


def differing_fields(one: Fields, other: Fields) -> list[str]:
    """Return the fields that differ; a content that one side protects is left out."""
    return [
        name
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
        and (name != CONTENT or (CONTENT in one and CONTENT in other))
    ]


def _field(name: str, value: str | None, other: str | None) -> str:
    if value is None:
        return f"no {name}"
    if "\n" not in value + (other or ""):
        return f"{name} {_line(value)}"
    own = [line for line in value.splitlines() if line not in (other or "").splitlines()]
    if len(own) == 1:
        return f"{name}: {_shown(own[0].strip())}"
    if own:
        return f"{name}: {len(own)} other lines"
    same = sorted(value.splitlines()) == sorted((other or "").splitlines())
    return f"{name}: lines in another order" if same else f"{name}: without these lines"


def _shown(line: str) -> str:
    """Return a line, or a note instead of one that looks like a secret."""
    return HIDDEN if SECRET.search(line) else line


def _line(value: str) -> str:
    return value if value and "\n" not in value else repr(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
