"""Apptainer, enroot and pyxis judged before a node is touched."""

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
    """Yield what of the declared programs cannot be had, or does not fit the others."""
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
    if containers.enroot is not None and not containers.engines:  # else said of the engines
        yield from _enroot(cluster, containers.enroot)


def _available(cluster: Cluster, wanted: dict[str, str]) -> Iterator[Problem]:
    release = cluster.os.release
    if release in operating_systems.known() and not operating_systems.load(release).can("packages"):
        for part, version in wanted.items():
            yield Problem(
                (*HERE, part), version, f"nothing that needs packages: not yet on {release}"
            )
    elif wanted and not cluster.software.repositories:
        yield Problem(
            ("software", "repositories"),
            "none",
            f"one that holds {', '.join(wanted)}: the distribution's archive does not",
        )


def _locked(cluster: Cluster, wanted: dict[str, str]) -> Iterator[Problem]:
    """Find single locks that say another version than the declared one."""
    for part, version in wanted.items():
        for name, pattern in job_containers.packages(part, version).items():
            locked = cluster.software.versions.get(name)
            if locked is not None and not fits(locked, pattern):
                yield Problem(
                    ("software", "versions", name),
                    f"{locked} beside {part} {version}",
                    f"{pattern}, as software.containers says",
                )


def _pyxis(cluster: Cluster, pyxis: str, enroot: str | None) -> Iterator[Problem]:
    oldest = job_containers.ENROOT_FOR_PYXIS
    if enroot is None:
        yield Problem(
            (*HERE, "enroot"),
            "not declared",
            f"a version: pyxis {pyxis} starts its containers by enroot",
        )
    elif not at_least(enroot, oldest):
        yield Problem((*HERE, "enroot"), enroot, f"{oldest} or later for pyxis {pyxis}")
    if cluster.scheduler is None:
        yield Problem((*HERE, "pyxis"), pyxis, "nothing, or a scheduler: it is a plugin of Slurm")


def _enroot(cluster: Cluster, enroot: str) -> Iterator[Problem]:
    """Find GPUs that no container would get: enroot's hook calls nvidia-container-cli."""
    stack = cluster.software.nvidia
    gpus = any(hardware.gpu for hardware in cluster.hardware.values())
    if gpus and (stack is None or stack.container_toolkit is None):
        yield Problem(
            (*HERE, "enroot"),
            enroot,
            "software.nvidia with container_toolkit: without it no container gets a GPU",
        )
