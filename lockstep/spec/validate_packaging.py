"""Validates where the packages of the NVIDIA stack come from: archives, branches, repositories."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.catalog import nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.nvidia import compatibility as table
from lockstep.catalog.os import Release
from lockstep.spec.model import Cluster, NodeRole
from lockstep.spec.problem import Relation
from lockstep.spec.software import Nvidia
from lockstep.spec.validate_repositories import without_repository

DECLARED = {
    **{part: part for part in ("driver", "fabric_manager", "nscq", "imex")},
    "cuda": "cuda_runtime",
    **{part: part for part in ("dcgm", "dcgm_exporter", "container_toolkit", "nccl", "gdrcopy")},
    "nvidia_fs": "nvidia_fs",
}
"""Field of ``software.nvidia`` -> the part that it declares (``Packaging.parts``)."""


def _with_gpus(cluster: Cluster) -> Iterator[Release]:
    """Yield the releases of the workers with NVIDIA GPUs, each once."""
    names = (
        cluster.release_of(group)
        for group in cluster.nodes
        if group.role is NodeRole.WORKER and group.hardware in cluster.gpus
    )
    for name in dict.fromkeys(names):
        release = operating_systems.find(name)
        if release is not None and release.supports("packages"):
            yield release


def _own(release: Release) -> str:
    """Return the value of ``packaging`` for the archive of a release; "" if there is none."""
    return next((name for name, id_ in nvidia.ARCHIVES.items() if id_ == release.id), "")


def packaged(cluster: Cluster, stack: Nvidia) -> Iterator[Relation]:
    """Find packages of another distribution, and driver branches that the archive replaced."""
    branch = table.branch(stack.driver)
    for release in _with_gpus(cluster):
        own = _own(release)
        packaging = nvidia.packaging(stack.packaging, stack.driver, release)
        after = packaging.superseded.get(branch)
        yield (
            stack.packaging in nvidia.ARCHIVES and stack.packaging != own,
            ("packaging",),
            f"{stack.packaging} on {release.name}",
            '"nvidia"' + (f' or "{own}"' if own else ""),
        )
        yield (
            after,
            ("driver",),
            f"{stack.driver} with packaging: {stack.packaging}",
            f"a branch that the archive has: its packages of branch {branch} are empty, and depend "
            f'on branch {after} (as of {packaging.origin.looked_up}); or packaging: "nvidia"',
        )


def available(cluster: Cluster, stack: Nvidia) -> Iterator[Relation]:
    """Find parts that need a repository when no repository is declared."""
    held = nvidia.PACKAGINGS[stack.packaging].from_archive
    missing = [
        field for field, part in DECLARED.items() if getattr(stack, field) and part not in held
    ]
    archives = [f'"{own}"' for own in dict.fromkeys(map(_own, _with_gpus(cluster))) if own]
    for where in without_repository(cluster):
        yield (
            missing,
            ("repositories",),
            f"none{where}",
            f"a repository that provides {', '.join(missing)}: the distribution's archive does not"
            + (f"; or set packaging: {archives[0]}" if archives and "driver" in missing else ""),
        )
