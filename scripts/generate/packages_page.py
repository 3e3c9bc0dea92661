"""Generates docs/packages.md: what each field of a description becomes, per operating system.

Every cell comes from the plan of inventories/prod.py on that release (``lockstep.becomes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from lockstep import becomes
from lockstep.becomes import EVERY_NODE, Becomes
from lockstep.catalog import archives
from lockstep.catalog.archives import Archive
from lockstep.plan import ClusterPlan
from tests.plan.on_release import planned_on

PAGE = "docs/packages.md"
RELEASES = ("debian_13", "ubuntu_24_04", "rocky_9")
NODES = ("head1", "head2", "worker01")
"""One node of each kind of inventories/prod.py."""

INTRODUCTION = """\
# What a description becomes: packages and files

Each row is a field of a description. Its cells say which packages and files of the nodes come from
the field, on three operating systems, and from which repository the packages usually come. The
tables are generated: the field is changed in the description of [prod.py](../inventories/prod.py),
and what then differs in the plan of the nodes comes from that field. `lockstep plan INVENTORY NODE
--becomes` shows the same for a node of yours.

`hardware.*` stands for each hardware class, `nodes[]` for each group of nodes. The row `nodes` has
what every node gets, whatever else is declared. A field that contains others has a row only for
what none of these becomes.

"""
KEYS = """\
These repositories usually have the packages. Which ones the nodes use is declared in
`software.repositories`: Lockstep adds no other repository to a node.

A repository that a description names is trusted with the key that the description contains, and no
other key. For NVIDIA's repositories the key must have the fingerprint above. The distribution's
archive is trusted with the keys that the node has.

"""


@cache
def _plans() -> Mapping[str, ClusterPlan]:
    return {release: planned_on(release) for release in RELEASES}


@cache
def fields() -> Mapping[str, Mapping[str, Becomes]]:
    """Return release -> field -> what it becomes on the nodes of prod.py."""
    return {release: becomes.of_fields(plan, NODES) for release, plan in _plans().items()}


def _table(*rows: tuple[str, ...]) -> str:
    head, *others = rows
    lines = [head, ("---",) * len(head), *others]
    return "".join("| " + " | ".join(row) + " |\n" for row in lines)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def source(release: str, package: str) -> Archive:
    """Return the repository that usually has a package on a release."""
    return becomes.source(_plans()[release].nodes[NODES[-1]], package)


def packages_cell(release: str, path: str) -> str:
    """Return the packages of a field on a release, with their usual repositories, or why it has
    none."""
    of: dict[str, list[str]] = {}
    for package in fields()[release].get(path, Becomes()).packages:
        of.setdefault(source(release, package).label, []).append(package)
    if of:
        return "; ".join(f"{_names(of[label])} ({label})" for label in sorted(of))
    nodes = _plans()[release].nodes.values()
    if not any(node.software.packages for node in nodes):
        return f"none: Lockstep installs no packages on {release} yet"
    others = {name for one in fields().values() for name in one.get(path, Becomes()).packages}
    return f"none: it changes no package there; elsewhere {_names(others)}"


def files_cell(release: str, path: str) -> str:
    """Return the files of a field on a release, or why it has none."""
    found = fields()[release].get(path, Becomes()).files
    if found:
        return _names(_short(found))
    plan = _plans()[release]
    roles = {role for one in fields().values() for role in one.get(path, Becomes()).files.values()}
    there = [plan.nodes[name].roles for name in NODES]
    reasons = []
    for role in sorted(roles):
        declared = next((of[role] for of in there if role in of), None)
        if declared is None:
            reasons.append(f"the role `{role}` is not supported on {release} yet")
        elif declared.operations:
            reasons.append(f"the role `{role}` sets it there without a file")
        else:
            raise ValueError(f"{path} on {release}: no file of the role {role}, and no reason")
    return f"none: {'; '.join(reasons)}"


def _short(files: Mapping[str, str]) -> Iterator[str]:
    """Yield paths; those of Lockstep's own program for nodes are one."""
    seen = False
    for path in files:
        if path.endswith(".py"):
            if not seen:
                yield path.partition("/lockstep/")[0] + "/lockstep/**.py"
            seen = True
        else:
            yield path


def _rows(of: str) -> list[str]:
    paths = {path for one in fields().values() for path, found in one.items() if getattr(found, of)}
    return sorted(paths, key=lambda path: (path != EVERY_NODE, path))


def _same(cells: list[str]) -> tuple[str, ...]:
    first, *others = cells
    return (first, *("the same" if cell == first else cell for cell in others))


def _repositories() -> str:
    rows = []
    for release in RELEASES:
        plan = _plans()[release].nodes[NODES[-1]]
        known = [archives.of_release(plan.release), archives.SITE, archives.DOCA]
        known += [archives.of_part(part, plan.release) for part in ("driver", "container_toolkit")]
        found = {one.label: one for one in known}
        for label in sorted(found):
            one = found[label]
            rows.append(
                (
                    f"`{release}`",
                    label,
                    one.name + (f", {one.address}" if one.address else ""),
                    " or ".join(f"`{key}`" for key in one.keys)
                    or "the one that the description contains",
                    one.origin.source
                    + ("" if one.origin.verified else f" (not verified, {one.origin.looked_up})"),
                )
            )
    return _table(("release", "in the tables", "repository", "key", "source"), *rows)


def _without() -> str:
    every = {path for path, _ in becomes.every_field(_plans()[RELEASES[0]].spec)}
    shown = {*_rows("packages"), *_rows("files")}
    inner = {
        one for one in every if any(other.startswith((f"{one}.", f"{one}[")) for other in every)
    }
    return _names(every - shown - inner)


def page() -> str:
    """Return the text of docs/packages.md."""
    head = ("field", *(f"`{release}`" for release in RELEASES))
    packages = [
        (f"`{path}`", *(packages_cell(release, path) for release in RELEASES))
        for path in _rows("packages")
    ]
    files = [
        (f"`{path}`", *_same([files_cell(release, path) for release in RELEASES]))
        for path in _rows("files")
    ]
    return (
        f"{INTRODUCTION}## Repositories\n\n{_repositories()}\n{KEYS}"
        f"## Packages\n\n{_table(head, *packages)}\n"
        f"## Files\n\n{_table(head, *files)}\n"
        "## Fields without a package or a file\n\n"
        "These become commands, or are for Lockstep itself, or their values need other fields that "
        f"this description does not have: {_without()}.\n"
    )


def files() -> dict[str, bytes]:
    """Return the page, for ``make generate``."""
    return {PAGE: page().encode("utf-8")}
