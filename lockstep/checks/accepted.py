"""Differences that a site accepts: rows of a file, each with its author, reason and last day.

The file is TOML (https://toml.io), for people who review it in git. ``lockstep accept`` writes it.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lockstep.nearest import did_you_mean
from lockstep.report import fold
from lockstep.spec.checks import Line
from lockstep.spec.names import expand

TABLE = "accepted"
HEADER = """\
# Differences that are wanted until the day in each row: lockstep check does not report them.
# lockstep accept writes rows; remove those that are no longer wanted.
"""
START = re.compile(rf"^\[\[{TABLE}\]\] *$", re.MULTILINE)
WHOLE = ""
"""In place of a field: the whole object."""


class AcceptedError(Exception):
    """Raised when the file of accepted differences cannot be used; the message names the place."""


class Acceptance(BaseModel):
    """One row of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rule: str
    object: str
    """Device or object, as a finding names it; "" is the node itself."""
    field: str = WHOLE
    nodes: Line
    """Node names, as a range."""
    by: Line
    until: date
    """The last day on which the difference is accepted, in UTC."""
    reason: Line
    found: str = ""
    """What was found, for people who read the file."""
    values: tuple[str, ...] = Field(default=(), strict=False)
    """Hashes of what was found (``hash_of``); empty if any value is accepted."""

    @property
    def names(self) -> frozenset[str]:
        """The nodes."""
        return frozenset(expand(self.nodes))

    @property
    def key(self) -> tuple[str, str, str, frozenset[str]]:
        """What a later row replaces."""
        return self.rule, self.object, self.field, self.names

    @property
    def place(self) -> str:
        """Return the rule, the object and the nodes as text."""
        field = f" field {self.field}" if self.field else ""
        return f"{self.rule} {self.object}{field} on {self.nodes}"

    def is_over(self, today: date) -> bool:
        """Return whether the row has expired."""
        return today > self.until

    def accepts(self, values: Collection[str]) -> bool:
        """Return whether the row accepts what has one of these hashes."""
        return not self.values or not set(self.values).isdisjoint(values)


def hash_of(value: str | Mapping[str, str] | None) -> str:
    """Return the hash of a value, of all fields of an object, or of a missing object."""
    data = json.dumps(value, sort_keys=True).encode("ascii")
    return hashlib.blake2b(data, digest_size=12).hexdigest()


@dataclass(frozen=True)
class Acceptances:
    """The accepted differences of one cluster, on one day."""

    rows: tuple[Acceptance, ...] = ()
    today: date = date.min
    file: str = ""

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str], list[Acceptance]]:
        found: dict[tuple[str, str, str], list[Acceptance]] = {}
        for row in self.rows:
            for node in row.names:
                found.setdefault((row.rule, row.object, node), []).append(row)
        return found

    def of(self, rule: str, thing: str, node: str) -> list[Acceptance]:
        """Return the rows about an object of a node, also expired ones."""
        return self._by_place.get((rule, thing, node), [])

    def valid(self, rule: str, thing: str, node: str) -> list[Acceptance]:
        """Return the rows about an object of a node that have not expired."""
        return [row for row in self.of(rule, thing, node) if not row.is_over(self.today)]


NONE_ACCEPTED = Acceptances()


def parsed(
    text: str, file: str, rules: Collection[str], nodes: Collection[str]
) -> tuple[Acceptance, ...]:
    """Return the rows of a file.

    Args:
        text: the content of the file.
        file: its path, for messages.
        rules: ids of the rules that a row may name.
        nodes: names of the nodes that a row may name.

    Raises:
        AcceptedError: the text is not TOML, or a row is malformed.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AcceptedError(f"{file}: {error}\n  expected  TOML (https://toml.io)") from error
    found = document.pop(TABLE, [])
    if document or not isinstance(found, list):
        names = ", ".join(document) or f"{TABLE} that is no list"
        raise AcceptedError(f"{file}: {names}\n  expected  tables [[{TABLE}]] only")
    return tuple(_row(row, f"{file}: {TABLE}[{n}]", rules, nodes) for n, row in enumerate(found))


def _row(row: object, place: str, rules: Collection[str], nodes: Collection[str]) -> Acceptance:
    try:
        made = Acceptance.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        value = "" if first["type"] == "missing" else f": {first['input']!r}"
        raise AcceptedError(f"{place}.{field}{value}\n  expected  {_wanted(first)}") from error
    if made.rule not in rules:
        expected = did_you_mean(made.rule, rules, "a rule from the output of lockstep rules")
        raise AcceptedError(f"{place}.rule: {made.rule!r}\n  expected  {expected}")
    try:
        unknown = sorted(made.names - set(nodes))
    except ValueError as error:
        raise AcceptedError(
            f"{place}.nodes: {made.nodes!r}\n  expected  a range: {error}"
        ) from error
    if unknown:
        raise AcceptedError(f"{place}.nodes: {fold(unknown)}\n  expected  nodes of {fold(nodes)}")
    return made


def _wanted(problem: Mapping[str, object]) -> str:
    kinds = {
        "missing": "a value for this key",
        "extra_forbidden": f"only the keys {', '.join(Acceptance.model_fields)}",
        "date_type": "a date such as 2027-01-31, without quotes",
        "string_too_short": "a text",
    }
    return kinds.get(str(problem["type"]), str(problem["msg"]))


def written(text: str, rows: Iterable[Acceptance], file: str) -> str:
    """Return the content of a file with further rows; a row replaces an older one with its key.

    All else stays as it is: comments and the order of rows are people's.

    Args:
        text: the content so far, which ``parsed`` accepts.
        rows: the new rows.
        file: the path of the file, for messages.

    Raises:
        AcceptedError: the file has its rows in another form, or a row cannot be written as TOML.
    """
    head, *blocks = _blocks(text or HEADER)
    keys = [Acceptance.model_validate(row).key for row in tomllib.loads(text).get(TABLE, [])]
    if len(keys) != len(blocks):
        raise AcceptedError(f"{file}: rows in another form\n  expected  one [[{TABLE}]] per row")
    for row in rows:
        new = _block(row)
        if row.key in keys:
            number = keys.index(row.key)
            comments = re.search(r"\n((?:[ \t]*(?:#.*)?\n)*)\Z", blocks[number])
            blocks[number] = new + (comments[1] if comments else "")
        else:
            keys.append(row.key)
            blocks.append(new)
            if not (blocks[-2] if len(blocks) > 1 else head).endswith("\n\n"):
                blocks[-1] = f"\n{new}"
    return head + "".join(blocks)


def _blocks(text: str) -> list[str]:
    """Return the text before the first row, and each row with the comments behind it."""
    text = text if text.endswith("\n") else f"{text}\n"
    starts = [match.start() for match in START.finditer(text)]
    return [text[a:b] for a, b in zip([0, *starts], [*starts, len(text)], strict=True)]


def _block(row: Acceptance) -> str:
    values = row.model_dump(exclude_defaults=True)
    lines = [f"{name} = {_value(value)}\n" for name, value in values.items()]
    return f"[[{TABLE}]]\n{''.join(lines)}"


def _value(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    text = str(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise AcceptedError(
            f"{text!r} cannot be written as TOML, which is UTF-8\n"
            "  next      leave the object out by an exception of the description"
        ) from error
    # A basic string of TOML has the escapes of JSON, and DEL must be escaped, too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
