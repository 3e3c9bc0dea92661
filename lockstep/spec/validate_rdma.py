"""Validates the RDMA stack: whether the release has it, and the repositories of DOCA-Host."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.catalog import os as operating_systems
from lockstep.catalog.nvidia import doca
from lockstep.catalog.nvidia.repositories import of_doca
from lockstep.catalog.os import Release
from lockstep.spec.model import Cluster, NodeRole
from lockstep.spec.problem import Problem, Relation, violated
from lockstep.spec.software import Rdma
from lockstep.spec.validate_repositories import without_repository
from lockstep.spec.validate_software import locks


def rdma_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find an RDMA stack that the nodes cannot have, or that no repository provides."""
    rdma = cluster.software.rdma
    if rdma is None:
        return
    systems = dict(_systems(cluster))
    yield from violated(("software", "rdma"), *_declared(rdma, systems))
    if rdma.stack == "doca_ofed" and systems:
        for where in without_repository(cluster):
            allowed = f"a repository that provides {doca.WITH_MODULES}: the archive does not"
            yield Problem(("software", "repositories"), f"none{where}", allowed)
    version = cluster.software.doca_ofed
    yield from violated(
        ("software",),
        *locks(
            cluster.software,
            f"rdma.version is {version}",
            doca.packages(version).items(),
            "software.rdma",
        ),
    )
    yield from _repositories(cluster, rdma)
    for name, hardware in cluster.hardware.items():
        if rdma.stack == "distribution" and hardware.nics.gpudirect == "peermem":
            yield Problem(
                ("hardware", name, "nics", "gpudirect"),
                "peermem with software.rdma.stack: distribution",
                '"dma_buf", or stack: "doca_ofed": the kernel\'s own RDMA modules lack what '
                "nvidia_peermem needs",
            )


def _systems(cluster: Cluster) -> Iterator[tuple[str, tuple[Release, str]]]:
    """Yield the release and the architecture of each kind of workers with RDMA devices."""
    for group in cluster.nodes:
        hardware = cluster.hardware.get(group.hardware)
        release = operating_systems.find(cluster.release_of(group))
        if group.role is NodeRole.WORKER and hardware and hardware.nics.rdma != "none" and release:
            yield f"{release.name} {hardware.architecture}", (release, hardware.architecture)


def _declared(rdma: Rdma, systems: dict[str, tuple[Release, str]]) -> Iterator[Relation]:
    if rdma.stack == "distribution":
        yield (
            rdma.version,
            ("version",),
            f"{rdma.version} with stack: distribution",
            'leave it out, or stack: "doca_ofed": the archive decides the version',
        )
        return
    yield (
        not systems,
        (),
        rdma.stack,
        "leave it out: no worker has RDMA devices (hardware.*.nics.rdma)",
    )
    yield (
        rdma.version is None,
        ("version",),
        "not declared",
        "the release of DOCA-Host, such as 3.3.0",
    )
    for release in {release.name: release for release, _ in systems.values()}.values():
        yield (
            rdma.version and not doca.supports(rdma.version, release),
            ("version",),
            f"{rdma.version} on {release.name}",
            f"{doca.first(release)} or later: earlier releases of DOCA-Host have no modules for "
            f"the kernels of {release.name}",
        )


def _repositories(cluster: Cluster, rdma: Rdma) -> Iterator[Problem]:
    """Find repositories of DOCA-Host with other packages than the declared ones."""
    served = list(dict(_systems(cluster)).values())
    for number, one in enumerate(cluster.software.repositories):
        found = of_doca(one.uri, one.suite)
        if found is None:
            continue
        right = [
            found.at(rdma.version or "VERSION", release, architecture)
            for release, architecture in served
            if one.serves(release.name, architecture)
        ]
        others = [address for address in right if address != found.address]
        yield from violated(
            ("software", "repositories", number, "uri"),
            (
                rdma.stack == "distribution",
                (),
                f"{one.uri} with software.rdma.stack: distribution",
                "leave it out: its rdma-core has a later version than the distribution's, and "
                "would take its place",
            ),
            (
                rdma.stack == "doca_ofed" and rdma.version and others,
                (),
                one.uri,
                f"{', '.join(others)} for DOCA-Host {rdma.version}"
                + ("; one repository for each, with releases or architectures" * (len(right) > 1)),
            ),
        )
