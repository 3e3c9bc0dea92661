"""Validates package repositories, and the releases whose nodes use them."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.catalog.kubernetes import of_project
from lockstep.catalog.nvidia.repositories import cuda_folder, of_vendor
from lockstep.spec import openpgp
from lockstep.spec.model import Cluster, NodeRole
from lockstep.spec.problem import Problem, Relation, violated
from lockstep.spec.software import Repository, Software


def repository_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find repositories that a package manager would reject, or that no node would use."""
    yield from _repositories(cluster.software)
    yield from _architectures(cluster)
    yield from _named_releases(cluster)


def _repositories(software: Software) -> Iterator[Problem]:
    """Find repositories that apt would reject (sources.list(5))."""
    names: set[str] = set()
    keys: dict[tuple[str, str], tuple[str, str]] = {}
    for number, one in enumerate(software.repositories):
        flat, suite = one.suite.endswith("/"), (one.uri.rstrip("/"), one.suite)
        first, key = keys.setdefault(suite, (one.name, one.key.strip()))
        yield from violated(
            ("software", "repositories", number),
            (one.name in names, ("name",), one.name, "a unique name among the repositories"),
            (
                key != one.key.strip(),
                ("key",),
                f"a different key from {first}, although both are for {one.uri} {one.suite}",
                "one key per suite: apt rejects a second one",
            ),
            _key(one),
            (
                flat and one.components,
                ("components",),
                f"{', '.join(one.components)} for the flat repository {one.suite}",
                'no components: a suite that ends in "/" is a flat repository',
            ),
            (
                not flat and not one.components,
                ("components",),
                f"none for the suite {one.suite}",
                'at least one, such as "main"; or a flat repository, whose suite ends in "/"',
            ),
        )
        names.add(one.name)


def _key(one: Repository) -> Relation:
    """Find a key that is not the vendor's, for a repository of the vendor."""
    vendor = of_vendor(one.uri, one.suite) or of_project(one.uri, one.suite)
    if vendor is None:
        return (False, (), "", "")
    try:
        found = ", ".join(openpgp.fingerprints(one.key))
    except openpgp.NotAKey as error:
        found = str(error)
    return (
        found != vendor.fingerprint,
        ("key",),
        found,
        f"only {vendor.fingerprint}, {vendor.of} key for this repository; download it from "
        f"{vendor.key}",
    )


def _architectures(cluster: Cluster) -> Iterator[Problem]:
    """Find NVIDIA's repositories for nodes with processors of another architecture."""
    used = {
        cluster.hardware[group.hardware].architecture
        for group in cluster.nodes
        if group.hardware in cluster.hardware and cluster.hardware[group.hardware].nvidia_gpu
    }
    for number, one in enumerate(cluster.software.repositories):
        folder = cuda_folder(one.uri, one.suite)
        built_for = {"x86_64": "x86_64", "sbsa": "arm64"}.get(folder)
        others = sorted(used.intersection(one.architectures or used) - {built_for})
        if built_for is None or not others:
            continue
        other = {"arm64": "sbsa", "x86_64": "x86_64"}[others[0]]
        yield Problem(
            ("software", "repositories", number, "architectures"),
            f"{', '.join(one.architectures) or 'all'} for NVIDIA's repository of {folder}",
            f'["{built_for}"]; nodes with {others[0]} use a repository whose address ends in '
            f"/{other}",
        )


def _named_releases(cluster: Cluster) -> Iterator[Problem]:
    """Find settings of a release that no node has, and repositories of no certain release."""
    releases = cluster.releases
    one_of = f"one of {', '.join(releases)}: no node has another release"
    yield from violated(
        ("software", "versions_on"),
        *((name not in releases, (name,), name, one_of) for name in cluster.software.versions_on),
    )
    for number, repository in enumerate(cluster.software.repositories):
        yield from violated(
            ("software", "repositories", number),
            (
                len(releases) > 1 and not repository.releases,
                ("releases",),
                f"none for the repository {repository.name}",
                f"the releases whose nodes use it, of {', '.join(releases)}",
            ),
            *(
                (name not in releases, ("releases", index), name, one_of)
                for index, name in enumerate(repository.releases)
            ),
        )


def without_repository(cluster: Cluster) -> Iterator[str]:
    """Yield where a cluster lacks a repository: `` for RELEASE``, or "" without any repository."""
    if not cluster.software.repositories:
        yield ""
        return
    releases = (
        cluster.release_of(group) for group in cluster.nodes if group.role is NodeRole.WORKER
    )
    for name in dict.fromkeys(releases):
        if not cluster.software.repositories_on(name):
            yield f" for {name}"
