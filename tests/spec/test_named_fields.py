"""Fields that the release notes and the NVIDIA document name exist in the description."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from lockstep.checks.catalogue import all_rules
from lockstep.spec import Cluster, HardwareClass

ROOT = Path(__file__).resolve().parents[2]
PATH = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)[`:]")
"""A dotted path at the start of a piece of code: ```nics.gpudirect: "peermem"```."""


def models(annotation: Any) -> list[type[BaseModel]]:
    """The models in an annotation, such as ``tuple[Model, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models(part)]


def exists(path: list[str], start: type[BaseModel]) -> bool:
    """Whether a path names a field; names of classes and the like are not part of the path."""
    field = start.model_fields.get(path[0])
    if field is None:
        return False
    return not path[1:] or any(exists(path[1:], model) for model in models(field.annotation))


def named(text: str) -> set[str]:
    """The paths of fields in a text. Rules have such names, too: ``gpu.lost``."""
    first = {*Cluster.model_fields, *HardwareClass.model_fields}
    found = {path for path in PATH.findall(text) if path.partition(".")[0] in first}
    return found - {rule.id for rule in all_rules()}


def unreleased() -> str:
    """The section of the next release."""
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## [")[1]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (unreleased(), "nics.gpudirect"),
        ((ROOT / "docs/nvidia.md").read_text(encoding="utf-8"), "software.nvidia.nvidia_fs"),
    ],
    ids=["CHANGELOG.md", "docs/nvidia.md"],
)
def test_every_field_that_is_named_exists(text: str, known: str) -> None:
    paths = named(text)
    assert known in paths
    assert [
        path
        for path in sorted(paths)
        if not any(exists(path.split("."), start) for start in (Cluster, HardwareClass))
    ] == []
