"""Turns a plain description into a validated cluster, or reports its problems."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from lockstep.spec.hardware import TAGS
from lockstep.spec.locate import line_of
from lockstep.spec.model import EVERY_ROLE, FORMAT, Cluster
from lockstep.spec.plain import plain_problems
from lockstep.spec.problem import Problem
from lockstep.spec.schedulers import SCHEDULER_TAGS
from lockstep.spec.validate import DeclaredRole, independent
from lockstep.spec.validate import problems as relations
from lockstep.spec.validate_names import unknown_roles
from lockstep.spec.wording import allowed

LONGEST_VALUE = 200
PARTS = ("networks", "hardware", "nodes")
"""Fields whose invalid items can be left out individually."""


def load(
    description: Mapping[str, object], roles: Collection[DeclaredRole]
) -> tuple[Cluster | None, list[Problem]]:
    """Return the cluster, or None and the problems found in the description.

    Args:
        description: the dictionary from an inventory.
        roles: every role that a node may have.

    If a field is invalid, the part that contains it (a node group, a hardware class, ...) is left
    out, and only the relations that do not depend on other parts are validated. This way, one run
    reports as many problems as possible, but a typo does not cause a dozen follow-up problems.
    """
    if found := plain_problems(description):
        if not isinstance(description, Mapping):
            return None, found
        return None, [replace(one, node=_node(one.path, description)) for one in found]
    number = description.get("format")
    if isinstance(number, int) and number > FORMAT:  # its fields mean nothing to this release
        next_step = f"{FORMAT}: a newer version of Lockstep reads format {number}. Next: use it"
        return None, [Problem(("format",), str(number), next_step)]
    try:
        cluster = Cluster.model_validate(description)
    except ValidationError as error:
        fields = [replace(one, node=_node(one.path, description)) for one in _problems(error)]
        return None, fields + _of_the_rest(description, [one.path for one in fields], roles)
    settings, found = _settings(cluster, roles)
    found += [*relations(cluster, roles), *_of_roles(cluster, roles)]
    return (None, found) if found else (cluster.model_copy(update={"extensions": settings}), [])


def _settings(
    cluster: Cluster, roles: Iterable[DeclaredRole]
) -> tuple[dict[str, BaseModel], list[Problem]]:
    """Return each role's settings as an instance of its model, and the problems found in them."""
    models = {role.name: role.settings for role in roles if role.settings is not None}
    names = ", ".join(sorted(models)) or "(no role has settings)"
    settings, problems = {}, []
    for name, given in cluster.extensions.items():
        if name not in models:
            problems.append(
                Problem(("extensions", name), repr(name), f"a role with settings: {names}")
            )
            continue
        try:
            settings[name] = models[name].model_validate(given)
        except ValidationError as error:
            problems += _problems(error, models[name], ("extensions", name))
    return settings, problems


def _of_roles(cluster: Cluster, roles: Iterable[DeclaredRole]) -> Iterator[Problem]:
    """Find unknown role names in ``unmanaged``, and the problems that the roles report."""
    known = (EVERY_ROLE, *sorted(role.name for role in roles))
    yield from unknown_roles(("unmanaged",), cluster.unmanaged, known)
    for index, group in enumerate(cluster.nodes):
        yield from unknown_roles(("nodes", index, "unmanaged"), group.unmanaged, known, group.name)
    for role in roles:
        if role.problems is not None and cluster.manages_anywhere(role.name):
            yield from role.problems(cluster)


def _of_the_rest(
    description: Mapping[str, object],
    unread: list[tuple[str | int, ...]],
    roles: Iterable[DeclaredRole],
) -> list[Problem]:
    """Return problems in the valid parts of a description; ``unread`` lists the invalid fields."""
    left_out = {path[:2] for path in unread if path[0] in PARTS and len(path) > 1}
    whole = {path[0] for path in unread if path[:2] not in left_out}
    rest = {
        key: _without(value, {path[1] for path in left_out if path[0] == key})
        for key, value in description.items()
        if key not in whole
    }
    needed = {"networks": {}, "hardware": {}, "nodes": [], "os": {"release": "debian_13"}}
    try:
        cluster = Cluster.model_validate({"name": "rest", **needed, **rest})
    except ValidationError:
        return []  # too little is left to validate
    groups = range(len(cluster.nodes) + len(left_out))
    kept = [index for index in groups if ("nodes", index) not in left_out]
    problems = []
    for problem in independent(cluster, roles):
        path = problem.path
        if path[0] in whole:
            continue  # about the placeholder for an invalid part
        if path[-1] in ("management", "fabric") and any(p[0] == "networks" for p in unread):
            continue  # its network may be the invalid one
        if path[0] == "nodes":
            path = ("nodes", kept[int(path[1])], *path[2:])
        problems.append(replace(problem, path=path))
    return problems


def _without(value: object, left_out: Container[str | int]) -> object:
    """Return a dictionary or a list without the items at these keys or indexes."""
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        return [item for index, item in enumerate(value) if index not in left_out]
    return value


def located(problems: list[Problem], file: Path) -> list[Problem]:
    """Return the problems sorted by line, each with the line of its field in the inventory."""
    source = file.read_text(encoding="utf-8")
    placed = [
        replace(one, line=line_of(source, one.path, Cluster.model_fields)) for one in problems
    ]
    return sorted(placed, key=lambda problem: problem.line or 0)


def _problems(
    error: ValidationError, model: type[BaseModel] = Cluster, here: tuple[str, ...] = ()
) -> list[Problem]:
    problems = []
    for detail in error.errors():
        # pydantic appends "[key]" to the path if the key of a dictionary is itself invalid.
        path = tuple(key for key in detail["loc"] if key not in ("[key]", *TAGS, *SCHEDULER_TAGS))
        found = repr(path[-1] if detail["type"] == "extra_forbidden" else detail["input"])
        if detail["type"] == "missing":
            found = "nothing"
        problems.append(Problem((*here, *path), found[:LONGEST_VALUE], allowed(detail, model)))
    return problems


def _node(path: tuple[int | str, ...], description: Mapping[str, object]) -> str:
    """Return the name of the node group that contains ``path``; "" if there is none."""
    match path, description.get("nodes"):
        case ["nodes", int(index), *_], [*groups] if index < len(groups):
            group = groups[index]
            name = group.get("name") if isinstance(group, Mapping) else None
            return name if isinstance(name, str) and name.isprintable() else ""
    return ""
