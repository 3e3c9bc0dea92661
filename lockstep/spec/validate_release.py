"""Validates that Lockstep supports all settings on the OS release, so that no deploy is partial."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lockstep.catalog import os as operating_systems
from lockstep.catalog.os import CGROUP_V2_FROM, Release
from lockstep.spec.hardware import Gpu
from lockstep.spec.model import Cluster, NodeGroup, NodeRole
from lockstep.spec.problem import Path, Problem, violated
from lockstep.spec.validate_slurm import series_on

Setting = tuple[object, Path, str]
"""A setting: whether it is declared, its field and its value."""

GPU_SETTINGS = ("power_limit_w", "clocks_mhz", "compute_mode", "ecc", "mig")


def release_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find declared settings that Lockstep does not support on a release that nodes have."""
    found = [one for name in cluster.releases if (one := operating_systems.find(name))]
    yield from violated(
        ("os", "selinux"),
        (
            cluster.os.selinux and found and not any(release.selinux for release in found),
            (),
            str(cluster.os.selinux),
            f"leave it out: {', '.join(release.name for release in found)} "
            f"{'do' if len(found) > 1 else 'does'} not run SELinux. The RHEL family does",
        ),
    )
    for name in cluster.releases:
        release = operating_systems.find(name)
        if release is not None:
            yield from _unsupported(cluster, name, release)


def _unsupported(cluster: Cluster, name: str, release: Release) -> Iterator[Problem]:
    nvidia = cluster.software.nvidia
    groups = [
        (index, group)
        for index, group in enumerate(cluster.nodes)
        if cluster.release_of(group) == name
    ]
    # Only workers have GPUs and containers.
    workers = {group.hardware for _, group in groups if group.role is NodeRole.WORKER}
    gpus = {name: gpu for name, gpu in cluster.gpus.items() if name in workers}
    if not release.supports("packages"):
        reason = f"packages are not supported on {name} yet"
        yield from _left_out(_with_packages(cluster, name), reason)
        for index, group in groups:
            yield from _left_out(
                _with_packages_on_nodes(cluster, group), reason, ("nodes", index), group.name
            )
    if release.family == "rhel":
        yield from _not_of_rhel(cluster, name)
    yield from violated(
        ("software", "containers", "engines"),
        *(
            (
                nvidia and gpus and engine in release.without_cdi,
                (),
                engine,
                f"an engine that supports CDI on {name}; without CDI, containers get no GPUs",
            )
            for engine in cluster.software.containers.engines
        ),
    )
    slurm = cluster.slurm is not None and release.supports("slurm_worker")
    if slurm and series_on(cluster, release) < CGROUP_V2_FROM:
        yield from _cgroups(cluster, workers, release)
    for hardware, gpu in gpus.items():
        here = ("hardware", hardware, "gpu")
        if not release.supports("gpu_settings"):
            reason = f"GPU settings are not supported on {name} yet"
            yield from _left_out(_gpu_settings(gpu), reason, here)
        yield from violated(
            here,
            (
                slurm and not release.slurm_nvml and gpu.mig,
                ("mig",),
                _text(gpu.mig) + " with Slurm",
                f"leave it out: no Slurm plugin on {name} detects MIG devices",
            ),
        )


def _cgroups(cluster: Cluster, workers: Collection[str], release: Release) -> Iterator[Problem]:
    """Find classes of workers whose jobs cgroup v2 would confine, without Slurm's plugin for it."""
    series = "{}.{:02}".format(*release.slurm)
    for name, hardware in cluster.hardware.items():
        yield from violated(
            ("hardware", name),
            (
                name in workers and hardware.cgroup != "none",
                ("cgroup",),
                f"{hardware.cgroup} with Slurm {series}, the version of {release.name}",
                '"none": only Slurm 22.05 and later can use cgroup v2. Jobs are then not confined '
                "to their CPUs, memory and GPUs. Or lock a later slurmd in software.versions",
            ),
        )


def _not_of_rhel(cluster: Cluster, name: str) -> Iterator[Problem]:
    """Find settings that only the Debian family has."""
    yield from violated(
        (),
        *(
            (
                repository.serves(name) and not repository.suite.endswith("/"),
                ("software", "repositories", number, "suite"),
                repository.suite,
                f'a path that ends in "/", such as "/", on {name}: a repository of RPMs has no '
                "suites",
            )
            for number, repository in enumerate(cluster.software.repositories)
        ),
    )


def _left_out(
    settings: Iterable[Setting], reason: str, here: Path = (), node: str = ""
) -> Iterator[Problem]:
    relations = ((*setting, f"leave it out: {reason}") for setting in settings)
    return violated(here, *relations, node=node)


def _with_packages(cluster: Cluster, release: str) -> Iterable[Setting]:
    """Return the cluster's settings that need packages."""
    os, containers, nvidia = cluster.os, cluster.software.containers, cluster.software.nvidia
    repositories = [repository.name for repository in cluster.software.repositories_on(release)]
    return (
        (cluster.slurm, ("scheduler",), "slurm"),
        (cluster.software.locked_on(release), ("software", "versions"), "locked versions"),
        (cluster.time.servers, ("time", "servers"), "chrony"),
        (os.automatic_upgrades, ("os", "automatic_upgrades"), "True"),
        (not os.locale.startswith("C."), ("os", "locale"), os.locale),
        (nvidia, ("software", "nvidia"), f"driver {nvidia.driver if nvidia else 'none'}"),
        (containers.engines, ("software", "containers", "engines"), _text(containers.engines)),
        (repositories, ("software", "repositories"), _text(repositories)),
        *(
            (version, ("software", "containers", part), str(version))
            for part, version in containers.programs.items()
        ),
    )


def _with_packages_on_nodes(cluster: Cluster, group: NodeGroup) -> Iterable[Setting]:
    """Return a node group's settings that need packages."""
    hardware = cluster.hardware.get(group.hardware)
    return (
        (group.runs, ("runs",), _text(service.value for service in group.runs)),
        (group.fabric is not None, ("fabric",), str(group.fabric)),
        (hardware and hardware.nics.rdma != "none", ("hardware",), group.hardware),
    )


def _gpu_settings(gpu: Gpu) -> Iterator[Setting]:
    for field in GPU_SETTINGS:
        value = getattr(gpu, field)
        text = _text(value) if isinstance(value, tuple) else str(value)
        yield value != Gpu.model_fields[field].default, (field,), text


def _text(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
