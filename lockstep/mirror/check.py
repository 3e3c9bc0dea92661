"""Whether the repositories have every package of a plan at its pinned version."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from lockstep.mirror.needs import ANY, Kind, Wanted, header_pattern, headers
from lockstep.mirror.root import Root
from lockstep.mirror.trouble import Trouble
from lockstep.mirror.versions import nearest
from lockstep.report import fold

T = TypeVar("T")
SHOWN = 8
"""Versions of a package that a message lists."""


def _nodes(kinds: Sequence[Kind], of: Callable[[Kind], Iterable[T]]) -> dict[T, list[str]]:
    """Return what kinds of nodes want -> the nodes that want it."""
    wanted: dict[T, list[str]] = {}
    for kind in kinds:
        for one in of(kind):
            wanted.setdefault(one, []).extend(kind.nodes)
    return wanted


def gone(root: Root, kinds: Sequence[Kind]) -> Iterator[Trouble]:
    """Yield a problem for each package, or pinned version, that no repository has.

    Args:
        root: the root of these kinds' system; its lists are up to date.
        kinds: kinds of nodes of one system.
    """
    wanted = _nodes(kinds, lambda kind: kind.packages)
    available = root.available(dict.fromkeys(one.package for one in wanted))
    asked = ", ".join(one.name for one in root.sources)
    for one, nodes in wanted.items():
        versions = available.get(one.package, {})
        if not any(map(one.accepts, versions)):
            yield _gone(one, versions, fold(nodes), asked)


def streams_gone(root: Root, kinds: Sequence[Kind]) -> Iterator[Trouble]:
    """Yield a problem for each module stream that no repository has.

    Args:
        root: the root of these kinds' system; its lists are up to date.
        kinds: kinds of nodes of one system.
    """
    wanted = _nodes(kinds, lambda kind: kind.streams)
    available = root.streams() if wanted else {}
    asked = ", ".join(one.name for one in root.sources)
    for stream, nodes in wanted.items():
        if stream in available:
            continue
        module, _, branch = stream.partition(":")
        found = {
            one.partition(":")[2]: sources
            for one, sources in available.items()
            if one.startswith(f"{module}:")
        }
        # Of the same modules first: 575-open is nearer to 580-open than 580-dkms.
        alike = [one for one in found if one.partition("-")[2] == branch.partition("-")[2]]
        near = nearest(branch, alike)
        then = f"nearest stream: {near}. Change" if near else "change"
        yield Trouble(
            where=f"module {stream}",
            problem=f"no repository has this module stream (asked: {asked})",
            next=f"{then} software.nvidia.driver, whose branch is the stream, or declare a "
            f"repository that has {stream} (software.repositories)",
            available=tuple(f"{one} ({', '.join(names)})" for one, names in found.items()),
            nodes=fold(nodes),
        )


def headers_gone(root: Root, kinds: Sequence[Kind], kernels: Sequence[str]) -> Iterator[Trouble]:
    """Yield a problem for each kernel whose headers no repository has.

    Args:
        root: the root of these kinds' system; its lists are up to date.
        kinds: kinds of nodes of one system.
        kernels: the kernels of the nodes, as ``uname -r`` prints them.
    """
    asked = ", ".join(one.name for one in root.sources)
    for kernel in dict.fromkeys(kernels):
        builds = [kind for kind in kinds if header_pattern(kind)]
        if not builds:
            return
        name = headers(builds[0], (kernel,))[kernel]
        prefix = header_pattern(builds[0]).partition("{release}")[0]
        every = root.names(prefix)
        if name in every:
            continue
        found = [one for one in every if one[len(prefix) :][:1].isdigit()]
        found.sort(key=_numbers, reverse=True)
        others = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        yield Trouble(
            where=f"--kernel {kernel}",
            problem=f"no repository has {name} (asked: {asked})",
            next="compare with uname -r of the nodes, or declare a repository that has these "
            "headers (software.repositories)",
            available=(*found[:SHOWN], *others),
            nodes=fold(node for kind in builds for node in kind.nodes),
        )


def _numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers within names by their values."""
    return [(int(digits or 0), other) for digits, other in re.findall(r"(\d+)|(\D+)", name)]


def _gone(one: Wanted, versions: Mapping[str, tuple[str, ...]], nodes: str, asked: str) -> Trouble:
    near = nearest(one.version, versions)
    shown = [f"{version} ({', '.join(names)})" for version, names in versions.items()]
    others = [f"and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
    if near is None:
        then = (
            f"declare a repository that has {one.package} (software.repositories), or leave out "
            f"{one.field}"
        )
    else:
        then = (
            f"nearest version: {near}. Change {one.field}, or declare a mirror that still has "
            f"{one.version}"
        )
    what = "this package" if one.version == ANY or not versions else f"version {one.version}"
    return Trouble(
        where=one.name,
        problem=f"no repository has {what} (asked: {asked})",
        next=then,
        available=(*shown[:SHOWN], *others),
        nodes=nodes,
    )
