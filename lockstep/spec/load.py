"""From a plain description to a validated cluster, or to every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lockstep.spec import names
from lockstep.spec.locate import line_of
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem
from lockstep.spec.validate import problems as relations


def load(description: Mapping[str, object]) -> tuple[Cluster | None, list[Problem]]:
    """Return the cluster, or None and all problems of the description.

    Relations between fields are judged only when every single field could be read: a typo in
    one field would otherwise show up as a dozen problems elsewhere.
    """
    try:
        cluster = Cluster.model_validate(description)
    except ValidationError as error:
        return None, [_problem(detail, description) for detail in error.errors()]
    found = relations(cluster)
    return (None, found) if found else (cluster, [])


def located(problems: list[Problem], file: Path) -> list[Problem]:
    """Return the problems with the line of the inventory that holds each field."""
    source = file.read_text(encoding="utf-8")
    return [replace(problem, line=line_of(source, problem.path)) for problem in problems]


def _problem(detail: ErrorDetails, description: Mapping[str, object]) -> Problem:
    path = tuple(detail["loc"])
    missing = detail["type"] == "missing"
    found = "nothing" if missing else repr(detail["input"])
    if detail["type"] == "extra_forbidden":
        found, allowed = repr(path[-1]), _known_fields(path)
    else:
        allowed = detail["msg"].removeprefix("Value error, ")
    return Problem(path, found[:200], allowed, node=_node(path, description))


def _known_fields(path: tuple[int | str, ...]) -> str:
    model: object = Cluster
    for key in path[:-1]:
        model = _inner(model, key)
    fields = getattr(model, "model_fields", {})
    return "one of " + ", ".join(fields) if fields else "no such field"


def _inner(model: object, key: int | str) -> object:
    annotation = getattr(model, "model_fields", {}).get(key)
    inner: object = annotation.annotation if annotation is not None else model
    while not hasattr(inner, "model_fields"):
        arguments = [a for a in getattr(inner, "__args__", ()) if a not in (type(None), ...)]
        if not arguments:
            return None
        inner = arguments[-1]
    return inner


def _node(path: tuple[int | str, ...], description: Mapping[str, object]) -> str:
    """Return the names of the node group that ``path`` points into, as written."""
    groups = description.get("nodes")
    if len(path) < 2 or path[0] != "nodes" or not isinstance(groups, list | tuple):
        return ""
    group = groups[path[1]] if isinstance(path[1], int) and path[1] < len(groups) else None
    name = group.get("name") if isinstance(group, Mapping) else None
    try:
        return name if isinstance(name, str) and names.expand(name) else ""
    except ValueError:
        return str(name)
