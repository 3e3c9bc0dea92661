"""Turns a plain description into a validated cluster, or reports all of its problems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from lockstep.spec.locate import line_of
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem
from lockstep.spec.roles import DeclaredRole
from lockstep.spec.validate import independent
from lockstep.spec.validate import problems as relations
from lockstep.spec.wording import allowed

LONGEST_VALUE = 200
PARTS = ("networks", "hardware", "nodes")
"""Fields with parts that can be left out individually."""
ANY_OS = {"release": "debian_13"}


def load(
    description: Mapping[str, object], roles: Iterable[DeclaredRole]
) -> tuple[Cluster | None, list[Problem]]:
    """Return the cluster, or None and all problems of the description.

    Args:
        description: as an inventory has it.
        roles: every role that a node may have.

    When a field is invalid, the part that contains it (a node group, a hardware class, ...) is
    left out, and the relations that do not need it are still validated. All problems show at
    once, and a typo does not cause a dozen follow-up problems.
    """
    roles = tuple(roles)
    try:
        cluster = Cluster.model_validate(description)
    except ValidationError as error:
        fields = [_problem(detail, description) for detail in error.errors()]
        unread = [problem.path for problem in fields]
        return None, fields + _of_the_rest(description, unread, roles)
    found = [*relations(cluster, roles), *_of_roles(cluster, roles)]
    return (None, found) if found else (_with_settings(cluster, roles), [])


def _of_roles(cluster: Cluster, roles: Iterable[DeclaredRole]) -> Iterator[Problem]:
    """Find what roles find, and settings of roles that are not as their models have them."""
    known = {role.name: role.settings for role in roles if role.settings is not None}
    for name, given in cluster.extensions.items():
        if name not in known:
            allowed_names = ", ".join(sorted(known)) or "nothing: no role has settings of its own"
            yield Problem(("extensions", name), repr(name), f"one of: {allowed_names}")
            continue
        try:
            known[name].model_validate(given)
        except ValidationError as error:
            for detail in error.errors():
                problem = _problem(detail, cluster.extensions)
                yield replace(problem, path=("extensions", name, *problem.path))
    names = {role.name for role in roles}
    for index, name in enumerate(cluster.unmanaged):
        if name not in names:
            yield Problem(("unmanaged", index), repr(name), f"one of: {', '.join(sorted(names))}")
    for role in roles:
        if role.problems is not None and role.name not in cluster.unmanaged:
            yield from role.problems(cluster)


def _with_settings(cluster: Cluster, roles: Iterable[DeclaredRole]) -> Cluster:
    """Return the cluster with the settings of roles as objects of their models."""
    if not cluster.extensions:
        return cluster
    models = {role.name: role.settings for role in roles if role.settings is not None}
    return cluster.model_copy(
        update={
            "extensions": {
                name: models[name].model_validate(given)
                for name, given in cluster.extensions.items()
            }
        }
    )


def _of_the_rest(
    description: Mapping[str, object],
    unread: list[tuple[str | int, ...]],
    roles: tuple[DeclaredRole, ...],
) -> list[Problem]:
    """Return the problems of a description without the invalid parts that ``unread`` lists."""
    left_out = {path[:2] for path in unread if path[0] in PARTS and len(path) > 1}
    whole = {path[0] for path in unread if path[:2] not in left_out}
    rest: dict[str, object] = {}
    kept: list[int] = []
    for key, value in description.items():
        if key in whole:
            continue
        if isinstance(value, Mapping) and key in PARTS:
            value = {name: part for name, part in value.items() if (key, name) not in left_out}
        elif isinstance(value, list | tuple) and key in PARTS:
            kept = [index for index in range(len(value)) if (key, index) not in left_out]
            value = [value[index] for index in kept]
        rest[key] = value
    needed = {"name": "rest", "networks": {}, "hardware": {}, "nodes": [], "os": ANY_OS}
    try:
        cluster = Cluster.model_validate({**needed, **rest})
    except ValidationError:
        return []  # too little is left to validate
    problems = []
    for problem in independent(cluster, roles):
        path = problem.path
        if path[0] in whole:
            continue  # about the replacement of an invalid part
        if path[-1] in ("management", "fabric") and any(p[0] == "networks" for p in unread):
            continue  # its network may be the invalid one
        if path[0] == "nodes" and len(path) > 1 and isinstance(path[1], int):
            path = ("nodes", kept[path[1]], *path[2:])
        problems.append(replace(problem, path=path))
    return problems


def located(problems: list[Problem], file: Path) -> list[Problem]:
    """Return the problems with the inventory's line of each field, sorted by line."""
    source = file.read_text(encoding="utf-8")
    fields = frozenset(Cluster.model_fields)
    placed = [
        replace(problem, line=line_of(source, problem.path, fields=fields)) for problem in problems
    ]
    return sorted(placed, key=lambda problem: problem.line or 0)


def _problem(detail: ErrorDetails, description: Mapping[str, object]) -> Problem:
    # pydantic appends "[key]" to the path when a dictionary's key itself is invalid.
    path = tuple(key for key in detail["loc"] if key != "[key]")
    found = repr(detail["input"])
    if detail["type"] == "missing":
        found = "nothing"
    elif detail["type"] == "extra_forbidden":
        found = repr(path[-1])
    return Problem(path, found[:LONGEST_VALUE], allowed(detail), node=_node(path, description))


def _node(path: tuple[int | str, ...], description: Mapping[str, object]) -> str:
    """Return the name range of the node group that contains ``path``, as written."""
    groups = description.get("nodes")
    if len(path) < 2 or path[0] != "nodes" or not isinstance(groups, list | tuple):
        return ""
    group = groups[path[1]] if isinstance(path[1], int) and path[1] < len(groups) else None
    name = group.get("name") if isinstance(group, Mapping) else None
    return name if isinstance(name, str) else ""
