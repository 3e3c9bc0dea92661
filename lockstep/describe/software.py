"""Versions of the software that a description declares: driver, Slurm, container engines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lockstep.catalog import job_containers, nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.nvidia import Packaging
from lockstep.catalog.os import Release
from lockstep.describe.machines import has_gpus
from lockstep.describe.seen import Seen
from lockstep.describe.system import release
from lockstep.describe.values import Block, Value, agreed, optional, rows, table, todo
from lockstep.report import alike
from lockstep.spec.software import fits

PINNED = re.compile(
    r"slurm.*|nvslurm-plugin-.*|containerd(\.io)?|docker(\.io|-ce|-ce-cli|-cli)?|podman"
)
"""Packages whose version a draft declares."""
PARTS = (
    *("fabric_manager", "nscq", "imex", "dcgm", "dcgm_exporter", "container_toolkit"),
    *("nccl", "gdrcopy", "nvidia_fs"),
)
"""Parts of the NVIDIA stack with a version of their own."""
MAIN = {
    "docker": ("docker.io", "docker-ce"),
    "containerd": ("containerd", "containerd.io"),
    "podman": ("podman",),
}
"""Container engine -> the packages that show that a node has it. Docker brings containerd."""


def block(
    nodes: Sequence[Seen],
    workers: Sequence[Seen],
    every_package: Callable[[Release], Sequence[str]],
) -> Block:
    """Return the software as a description has it.

    Args:
        nodes: all nodes.
        workers: the nodes that run jobs.
        every_package: returns the packages that a node with a release may get.
    """
    parts: dict[Any, Value | Block] = {}
    with_gpus = [one for one in workers if has_gpus(one)]
    stack = _stack(with_gpus) if with_gpus else None
    repository = False
    if stack is not None:
        parts["nvidia"], repository = stack
    containers = _containers(workers)
    if containers:
        parts["containers"] = table(containers)
        repository |= any(name != "engines" for name in containers)
    if repository:
        parts["repositories"] = rows(
            [_repository()],
            "the repositories of the packages that are not in the distribution's archive",
        )
    parts |= _versions(nodes, every_package)
    return table(parts)


def _repository() -> Block:
    return table(
        {
            "name": todo("name"),
            "uri": todo("address of the repository", "see the package sources of the nodes"),
            "suite": todo("suite"),
            "key": todo("its public key", "take it from the vendor, not from a node"),
        }
    )


def _stack(nodes: Sequence[Seen]) -> tuple[Block, bool] | None:
    """Return the NVIDIA stack, and whether it needs a repository; None without a driver."""
    got = agreed(nodes, lambda one: one.items("driver.module").get("version"))
    if got is None:
        return None
    driver = str(got[0])
    chosen = agreed(nodes, lambda one: _packaging(one, driver))
    if chosen is None:
        return (
            table(
                {"packaging": todo("debian, nvidia or ubuntu", f"driver {driver}, {got[1]}: "
                 "installed by other packages than Lockstep knows, or without packages"),
                 "driver": Value(*got)},
                "remove this part if Lockstep is not to install the driver",
            ),
            False,
        )  # fmt: skip
    parts: dict[Any, Value | Block] = {"packaging": Value(*chosen), "driver": Value(*got)}
    flavour = agreed(nodes, lambda one: _flavour(one))
    optional(parts, "modules", flavour)
    needs = set() if chosen[0] in nvidia.ARCHIVES else {"driver"}
    held = nvidia.PACKAGINGS[chosen[0]].from_archive
    cuda = agreed(nodes, lambda one: _cuda(one, chosen[0], driver) or None)
    if cuda:
        (releases, part), note = cuda
        parts["cuda"] = Value(releases, note)
        parts["cuda_parts"] = Value(part, note)
    for part in PARTS:
        found = agreed(nodes, lambda one, part=part: _part(one, chosen[0], driver, part))  # type: ignore[misc]
        if found:
            parts[part] = Value(*found)
            needs |= {part} - held
    return table(parts), bool(needs)


def _flavour(one: Seen) -> str | None:
    found = one.items("driver.module").get("flavour")
    return found if found in ("open", "proprietary") else None


def _packages(one: Seen, name: str, driver: str) -> Packaging | None:
    known = operating_systems.find(release(one))
    return None if known is None else nvidia.packaging(name, driver, known)


def _packaging(one: Seen, driver: str) -> str | None:
    """Return the packaging whose packages of the driver a node has."""
    system = operating_systems.find(release(one))
    for name in nvidia.PACKAGINGS:
        packaging = _packages(one, name, driver)
        if packaging is None or system is None:
            return None
        if nvidia.ARCHIVES.get(name, system.id) != system.id:
            continue
        modules = [
            list(packaging.packages(f"modules_{flavour}", driver, driver))
            for flavour in ("open", "proprietary")
        ]
        if any(all(fits(one.package(p), v) for p, v in wanted) for wanted in modules):
            return name
    return None


def _part(one: Seen, name: str, driver: str, part: str) -> str | None:
    """Return the upstream version of a part of the stack; None if a node does not have it."""
    packaging = _packages(one, name, driver)
    if packaging is None or part not in packaging.parts:
        return None
    # The pattern of the version, with a mark where the upstream version is.
    found = {
        _upstream(one.package(package), pattern)
        for package, pattern in packaging.packages(part, "0.0", driver)
    }
    return found.pop() if len(found) == 1 else None


def _upstream(version: str, pattern: str) -> str | None:
    """Return the upstream version in a package version: 1:4.5.0-1 with 1:0.0-* is 4.5.0."""
    before, _, after = pattern.partition("0.0")
    form = re.escape(before) + r"(\d+(?:\.[A-Za-z0-9]+)+)" + re.escape(after).replace(r"\*", ".*")
    match = re.fullmatch(form, version)
    return match.group(1) if match else None


def _cuda(one: Seen, name: str, driver: str) -> tuple[list[str], str] | None:
    """Return the installed releases of CUDA, and which part of them."""
    packaging = _packages(one, name, driver)
    if packaging is None:
        return None
    for part in ("toolkit", "runtime"):
        entry = packaging.parts[f"cuda_{part}"]
        found = sorted(set(_cuda_releases(one, entry.names[0])), key=_number)
        if found:
            return found, part
    return None


def _cuda_releases(one: Seen, name: str) -> Iterator[str]:
    form = re.escape(name).replace(r"\{cuda\}", r"\d+-\d+").replace(r"\{cuda_soname\}", r"[\d.]+")
    for package, version in one.items("packages").items():
        if re.fullmatch(form, package) and (match := re.match(r"(?:\d+:)?(\d+\.\d+)", version)):
            yield match.group(1)


def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _containers(workers: Sequence[Seen]) -> dict[Any, Value | Block]:
    parts: dict[Any, Value | Block] = {}
    engines = agreed(workers, lambda one: list(_engines(one)) or None)
    optional(parts, "engines", engines)
    for part, packages in job_containers.PACKAGES.items():

        def installed(one: Seen, packages: dict[str, str] = packages) -> str | None:
            found = {
                _upstream(one.package(name), form.format(version="0.0"))
                for name, form in packages.items()
            }
            return found.pop() if len(found) == 1 else None

        optional(parts, part, agreed(workers, installed))
    return parts


def _engines(one: Seen) -> Iterator[str]:
    found = [name for name, packages in MAIN.items() if any(map(one.package, packages))]
    yield from sorted(name for name in found if name != "containerd" or "docker" not in found)


def _versions(
    nodes: Sequence[Seen], every_package: Callable[[Release], Sequence[str]]
) -> dict[Any, Value | Block]:
    """Return the exact versions, per release if there are several."""
    by_release = alike((one for one in nodes if release(one)), release)
    found = {
        name: dict(_exact(same, every_package(operating_systems.load(name))))
        for name, same in by_release.items()
    }
    found = {name: versions for name, versions in found.items() if versions}
    if len(by_release) == 1:
        locked: dict[str, Value | Block] = next(iter(found.values()), {})
        return {"versions": table(locked)} if locked else {}
    return (
        {"versions_on": table({name: table(one) for name, one in found.items()})} if found else {}
    )


def _exact(nodes: Sequence[Seen], packages: Sequence[str]) -> Iterator[tuple[str, Value | Block]]:
    for package in packages:
        having = [one for one in nodes if one.package(package)]
        if PINNED.fullmatch(package) and having:
            got = agreed(having, lambda one, package=package: one.package(package))  # type: ignore[misc]
            assert got is not None
            yield package, Value(*got)
