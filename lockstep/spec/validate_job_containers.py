"""Validates Apptainer, enroot and pyxis before any node is contacted."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.catalog import job_containers
from lockstep.catalog import os as operating_systems
from lockstep.catalog.nvidia.compatibility import at_least
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem
from lockstep.spec.software import fits

HERE = ("software", "containers")


def job_container_problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield declared programs that are unavailable or do not match the other versions."""
    containers = cluster.software.containers
    wanted = {
        part: version
        for part in job_containers.PACKAGES
        if (version := getattr(containers, part)) is not None
    }
    yield from _available(cluster, wanted)
    yield from _locked(cluster, wanted)
    if containers.pyxis is not None:
        yield from _pyxis(cluster, containers.pyxis, containers.enroot)
    if containers.enroot is not None and not containers.engines:  # else reported for the engines
        yield from _enroot(cluster, containers.enroot)


def _available(cluster: Cluster, wanted: dict[str, str]) -> Iterator[Problem]:
    release = cluster.os.release
    if release in operating_systems.known() and not operating_systems.load(release).can("packages"):
        for part, version in wanted.items():
            yield Problem(
                (*HERE, part), version, f"leave it out: no package support on {release} yet"
            )
    elif wanted and not cluster.software.repositories:
        yield Problem(
            ("software", "repositories"),
            "none",
            f"one that provides {', '.join(wanted)}: the distribution's archive does not",
        )


def _locked(cluster: Cluster, wanted: dict[str, str]) -> Iterator[Problem]:
    """Find locked package versions that contradict the declared version."""
    for part, version in wanted.items():
        for name, pattern in job_containers.packages(part, version).items():
            locked = cluster.software.versions.get(name)
            if locked is not None and not fits(locked, pattern):
                yield Problem(
                    ("software", "versions", name),
                    f"{locked}, but {part} is {version}",
                    f"{pattern}, as in software.containers",
                )


def _pyxis(cluster: Cluster, pyxis: str, enroot: str | None) -> Iterator[Problem]:
    oldest = job_containers.ENROOT_FOR_PYXIS
    if enroot is None:
        yield Problem(
            (*HERE, "enroot"),
            "not declared",
            f"a version: pyxis {pyxis} starts its containers with enroot",
        )
    elif not at_least(enroot, oldest):
        yield Problem((*HERE, "enroot"), enroot, f"{oldest} or later for pyxis {pyxis}")
    if cluster.scheduler is None:
        yield Problem((*HERE, "pyxis"), pyxis, "leave it out, or add Slurm: it is a Slurm plugin")


def _enroot(cluster: Cluster, enroot: str) -> Iterator[Problem]:
    """Find a missing container toolkit: enroot's hook needs nvidia-container-cli for GPUs."""
    stack = cluster.software.nvidia
    gpus = any(hardware.gpu for hardware in cluster.hardware.values())
    if gpus and (stack is None or stack.container_toolkit is None):
        yield Problem(
            (*HERE, "enroot"),
            enroot,
            "software.nvidia with container_toolkit: without it, containers get no GPU",
        )
