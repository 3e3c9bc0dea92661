"""From a plain description to a validated cluster, or to every problem at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lockstep.spec.locate import line_of
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem
from lockstep.spec.validate import problems as relations
from lockstep.spec.wording import allowed

LONGEST_VALUE = 200


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
    """Return the problems with the line of the inventory that holds each field, in that order."""
    source = file.read_text(encoding="utf-8")
    fields = frozenset(Cluster.model_fields)
    placed = [
        replace(problem, line=line_of(source, problem.path, fields=fields)) for problem in problems
    ]
    return sorted(placed, key=lambda problem: problem.line or 0)


def _problem(detail: ErrorDetails, description: Mapping[str, object]) -> Problem:
    # pydantic marks a wrong key of a dictionary with "[key]" behind it.
    path = tuple(key for key in detail["loc"] if key != "[key]")
    found = repr(detail["input"])
    if detail["type"] == "missing":
        found = "nothing"
    elif detail["type"] == "extra_forbidden":
        found = repr(path[-1])
    return Problem(path, found[:LONGEST_VALUE], allowed(detail), node=_node(path, description))


def _node(path: tuple[int | str, ...], description: Mapping[str, object]) -> str:
    """Return the names of the node group that ``path`` points into, as written."""
    groups = description.get("nodes")
    if len(path) < 2 or path[0] != "nodes" or not isinstance(groups, list | tuple):
        return ""
    group = groups[path[1]] if isinstance(path[1], int) and path[1] < len(groups) else None
    name = group.get("name") if isinstance(group, Mapping) else None
    return name if isinstance(name, str) else ""
