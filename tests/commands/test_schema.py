"""The JSON schema of a description: all fields, ranges and names; misspelt fields are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from lockstep.__main__ import main
from lockstep.commands.schema import schema
from lockstep.spec import Cluster
from scripts.generate import description_page
from tests.harm.descriptions import bases

SCHEMA = schema()


def _followed(part: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas of which a value must fit one."""
    if "$ref" in part:
        return _followed(SCHEMA["$defs"][part["$ref"].rpartition("/")[2]])
    choices = part.get("anyOf", part.get("oneOf"))
    return [one for choice in choices for one in _followed(choice)] if choices else [part]


def unknown(value: Any, part: dict[str, Any]) -> Iterator[str]:
    """Yield the fields of a description that the schema refuses."""
    for key, item in value.items() if isinstance(value, dict) else ():
        objects = [one for one in _followed(part) if one.get("type") == "object"]
        inner = [
            one["properties"].get(key) or one.get("additionalProperties")
            if "properties" in one
            else one.get("additionalProperties", True)
            for one in objects
        ]
        allowed = [one for one in inner if one is not False and one is not None]
        if objects and not allowed:
            yield key
        for one in allowed:
            if isinstance(one, dict):
                yield from unknown(item, one)
    for item in value if isinstance(value, list) else ():
        for one in _followed(part):
            if "items" in one:
                yield from unknown(item, one["items"])


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA
    assert set(SCHEMA["properties"]) == set(Cluster.model_fields)


def test_it_has_ranges_and_the_text_of_a_field() -> None:
    network = SCHEMA["$defs"]["Network"]["properties"]["rails"]
    assert (network["minimum"], network["maximum"]) == (1, 64)
    assert network["description"].startswith("Number of rails.")


@pytest.mark.parametrize("base", bases(), ids=lambda base: base.name)
def test_it_has_every_field_of_a_description(base: Any) -> None:
    assert list(unknown(base.description, SCHEMA)) == []


def test_it_refuses_a_misspelt_field() -> None:
    assert list(unknown({"nodse": []}, SCHEMA)) == ["nodse"]
    assert list(unknown({"os": {"tiem_zone": "Etc/UTC"}}, SCHEMA)) == ["tiem_zone"]
    assert list(unknown({"nodes": [{"nmae": "a"}]}, SCHEMA)) == ["nmae"]


# --- docs/description.md is made of it

PARTS = description_page.definitions()
FIELDS = [(name, field) for name, part in PARTS.items() for field in part["properties"]]


def test_every_field_has_a_sentence() -> None:
    silent = [f"{name}.{field}" for name, field in FIELDS if not text(name, field)]
    assert silent == [], "write a text below the field, in lockstep/spec"


def text(name: str, field: str) -> str:
    return str(PARTS[name]["properties"][field].get("description", ""))


def test_the_page_has_every_field_of_the_model() -> None:
    """The page follows references of the schema; the model is asked here on its own."""

    def fields(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
        for field, info in model.model_fields.items():
            yield model.__name__, field
            for inner in used(info.annotation):
                yield from fields(inner)

    def used(annotation: Any) -> Iterator[type[BaseModel]]:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        for inner in get_args(annotation):
            yield from used(inner)

    assert set(FIELDS) == set(fields(Cluster))


def test_a_value_that_lockstep_validates_itself_says_what_is_allowed() -> None:
    driver = SCHEMA["$defs"]["Nvidia"]["properties"]["driver"]
    assert driver["allowed"] == "an upstream version (no epoch, no revision), such as 550.163.01"


def test_no_field_of_a_release_is_gone() -> None:
    """Descriptions of an older release stay valid; a field that goes needs a step in upgrading."""
    now = {f"{name}.{field}" for name, field in FIELDS}
    for release, fields in description_page.releases().items():
        assert fields <= now, release
