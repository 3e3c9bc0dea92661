"""Generates docs/description.md: every field of a description, from its model.

Types, ranges and defaults come from the JSON schema, meanings from the texts below the fields,
examples from descriptions that the tests use. ``fields/RELEASE.txt`` lists the fields of each
release; a release adds one such file (docs/upgrading.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from lockstep import spec
from lockstep.commands.schema import schema
from lockstep.inventory import plan_or_problems
from tests.harm.descriptions import bases

PAGE = "docs/description.md"
RELEASES = Path(__file__).parent / "fields"
LONGEST_EXAMPLE = 60
ROOT_NAME = spec.Cluster.__name__

INTRODUCTION = """\
# The fields of a description

This page is generated from the model (`lockstep/spec/`). `lockstep schema` prints the same as a
JSON schema. A description is a Python dictionary; the examples are Python values.
[prod.py](../inventories/prod.py) is a complete description, [small.py](../inventories/small.py) a
short one.

- A field without a default is **required**. `None` as a default means that the field may be left
  out; its meaning says what then happens.
- "since" is the first release that has the field; "next" is the next release.
- Unknown fields are refused, with the nearest name. Control characters are refused in any text.
- A description has at most 30,000 nodes, and a node at most 8,192 CPUs.
- Relations between fields, such as addresses and their network, are validated as well:
  `lockstep plan INVENTORY` shows every problem with its line.

"""


@cache
def _whole() -> dict[str, Any]:
    return schema()


def definitions() -> dict[str, dict[str, Any]]:
    """Return the schemas of all parts by class, in the order in which a description uses them."""
    whole = _whole()
    parts: dict[str, dict[str, Any]] = {}

    def add(name: str, part: dict[str, Any]) -> None:
        if name in parts or "properties" not in part:
            return
        parts[name] = part
        for field in part["properties"].values():
            for used in _used(field):
                add(used, whole["$defs"][used])

    add(ROOT_NAME, whole)
    return parts


def _used(part: Any) -> Iterator[str]:
    """Yield the names of the classes that a schema refers to."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        for inner in part.values():
            yield from _used(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _used(inner)


def _kind(part: dict[str, Any]) -> str:
    """Return the type of a field in words, with its range."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        choices = _whole()["$defs"][name].get("enum")
        return _choices(choices) if choices else f"[{name}](#{name.lower()})"
    for choice in ("anyOf", "oneOf"):
        if choice in part:
            return " or ".join(_kind(one) for one in part[choice] if one.get("type") != "null")
    if "enum" in part or "const" in part:
        return _choices(part.get("enum", [part.get("const")]))
    match part.get("type"):
        case "array" if "prefixItems" in part:
            return f"{len(part['prefixItems'])} values, each {_kind(part['prefixItems'][0])}"
        case "array":
            return f"list of {_kind(part['items'])}"
        case "object":
            values: Any = part.get("additionalProperties") or next(
                iter(part.get("patternProperties", {}).values()), {}
            )
            return f"dictionary of {_kind(values) if isinstance(values, dict) else 'any values'}"
        case "integer" | "number" as kind:
            return ("whole number" if kind == "integer" else "number") + _range(part)
        case "boolean":
            return "`True` or `False`"
        case "string":
            return f"text ({part['allowed']})" if "allowed" in part else "text"
        case _:
            return "any value"


def _choices(values: list[Any]) -> str:
    return ", ".join(f"`{json.dumps(value)}`" for value in values)


def _range(part: dict[str, Any]) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    above = part.get("exclusiveMinimum")
    most = high if high is not None and high < (1 << 31) - 1 else None
    if above is not None:
        return f" above {above}" + (f", at most {most}" if most is not None else "")
    if low is not None and most is not None:
        return f", {low} to {most}"
    return f", at least {low}" if low is not None else ""


def _default(name: str, part: dict[str, Any], required: list[str]) -> str:
    if name in required:
        return "**required**"
    value = part.get("default")
    if isinstance(value, dict) and value and "$ref" in part:
        return "the defaults of its fields"
    if value is None and "default" not in part:
        return "`{}`"  # a default_factory: pydantic does not show it
    return f"`{value!r}`"


@cache
def _examples() -> dict[str, str]:
    """Return ``Class.field`` -> an example of its value, as Python."""
    found: dict[str, str] = {}

    def visit(value: Any) -> None:
        if isinstance(value, BaseModel):
            for name in type(value).model_fields:
                inner = getattr(value, name)
                if name in value.model_fields_set:
                    key = f"{type(value).__name__}.{name}"
                    text = repr(_plain(value.model_dump()[name]))
                    if not _models(inner) and len(text) <= LONGEST_EXAMPLE and inner:
                        found.setdefault(key, text)
                visit(inner)
        elif isinstance(value, dict):
            for inner in value.values():
                visit(inner)
        elif isinstance(value, tuple | list):
            for inner in value:
                visit(inner)

    for base in bases():
        plan, _ = plan_or_problems(base.description, base.file)
        if plan is not None:
            visit(plan.spec)
    return found


def _plain(value: Any) -> Any:
    """Return a value as a description has it: lists and text in place of tuples and enums."""
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value.value if isinstance(value, Enum) else value


def _models(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return isinstance(value, BaseModel) or (
        isinstance(value, dict | tuple | list) and any(isinstance(one, BaseModel) for one in items)
    )


@cache
def releases() -> dict[str, frozenset[str]]:
    """Return release -> the fields that it has, the oldest release first."""
    files = sorted(RELEASES.glob("*.txt"), key=lambda file: [int(n) for n in file.stem.split(".")])
    return {file.stem: frozenset(file.read_text().split()) for file in files}


def _since(field: str) -> str:
    return next((release for release, fields in releases().items() if field in fields), "next")


def _section(name: str, part: dict[str, Any]) -> Iterator[str]:
    yield f"## {name if name != ROOT_NAME else 'Cluster'}\n\n"
    if text := part.get("description", "").strip():
        yield f"{text.replace('``', '`')}\n\n"
    yield "| field | type | default | meaning | example | since |\n|---|---|---|---|---|---|\n"
    for field, value in part["properties"].items():
        example = _examples().get(f"{name}.{field}", "")
        cells = (
            f"`{field}`",
            _kind(value),
            _default(field, value, part.get("required", [])),
            value.get("description", "").replace("``", "`"),
            f"`{example}`" if example else "",
            _since(f"{name}.{field}"),
        )
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    yield "\n"


def files() -> dict[str, bytes]:
    """Return the page."""
    sections = (line for name, part in definitions().items() for line in _section(name, part))
    return {PAGE: (INTRODUCTION + "".join(sections)).rstrip("\n").encode() + b"\n"}
