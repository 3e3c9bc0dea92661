"""Validates fields against each other; finds all problems in a description in one pass."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from pydantic import BaseModel

from lockstep.catalog import job_containers, nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.nvidia import doca
from lockstep.catalog.os import Release
from lockstep.report import fold
from lockstep.spec import names
from lockstep.spec.hardware import MEMORY_SHARE
from lockstep.spec.model import Cluster, NodeRole
from lockstep.spec.problem import Problem, violated
from lockstep.spec.validate_addresses import address_problems, uncountable
from lockstep.spec.validate_checks import check_problems, class_problems
from lockstep.spec.validate_hardware import hardware_problems
from lockstep.spec.validate_kubernetes import kubernetes_problems
from lockstep.spec.validate_names import name_problems, too_many
from lockstep.spec.validate_network import network_problems
from lockstep.spec.validate_nvlink import nvlink_problems
from lockstep.spec.validate_processors import too_many_cpus
from lockstep.spec.validate_rdma import rdma_problems
from lockstep.spec.validate_release import release_problems
from lockstep.spec.validate_repositories import repository_problems
from lockstep.spec.validate_schedulers import scheduler_problems
from lockstep.spec.validate_slurm import slurm_problems
from lockstep.spec.validate_software import software_problems
from lockstep.spec.validate_sysctl import sysctl_problems
from lockstep.spec.validate_topology import topology_problems


class DeclaredRole(Protocol):
    """The part of ``lockstep.plan.declaration.Declaration`` that the validation uses.

    This layer cannot import the roles, so they are passed in as arguments.
    """

    @property
    def name(self) -> str:
        """The name of the role, which is also the key of its settings in ``extensions``."""

    @property
    def problems(self) -> Callable[[Cluster], Iterable[Problem]] | None:
        """Function that validates a description for this role; None: nothing to validate."""

    @property
    def settings(self) -> type[BaseModel] | None:
        """The model of the role's settings in ``extensions``; None: the role has no settings."""

    def packages_on(self, release: Release) -> tuple[str, ...]:
        """Return the packages that every node with this role gets on an OS release."""


def every_package(release: Release, roles: Iterable[DeclaredRole]) -> tuple[str, ...]:
    """Return every distribution package that a node may get, sorted."""
    of_roles = {name for role in roles for name in role.packages_on(release)}
    return tuple(sorted(of_roles | release.every_package))


def problems(cluster: Cluster, roles: Iterable[DeclaredRole]) -> list[Problem]:
    """Return all conflicts between fields; empty when the cluster can be planned."""
    if found := too_many(cluster):
        return found
    return [
        *independent(cluster, roles),
        *uncountable(cluster),
        *_groups(cluster),
        *release_problems(cluster),
        *repository_problems(cluster),
        *network_problems(cluster),
        *software_problems(cluster),
        *rdma_problems(cluster),
        *_jobs_have_memory(cluster),
        *class_problems(cluster),
        *scheduler_problems(cluster),
        *kubernetes_problems(cluster),
        *_partitions(cluster),
        *slurm_problems(cluster),
        *nvlink_problems(cluster),
        *topology_problems(cluster),
    ]


def independent(cluster: Cluster, roles: Iterable[DeclaredRole]) -> list[Problem]:
    """Return the problems that do not depend on other parts of the description.

    They can be reported even when invalid parts are left out, because a missing part cannot cause
    them.
    """
    if found := too_many(cluster):
        return found
    return [
        *_os(cluster, roles),
        *check_problems(cluster.checks),
        *(p for name, h in cluster.hardware.items() for p in hardware_problems(name, h)),
        *name_problems(cluster),
        *(() if any(uncountable(cluster)) else address_problems(cluster)),
    ]


def _os(cluster: Cluster, roles: Iterable[DeclaredRole]) -> Iterator[Problem]:
    yield from sysctl_problems(cluster.os)
    yield from violated(
        ("os", "firewall", "trusted"),
        *(
            (
                one.prefixlen == 0,
                (number,),
                str(one),
                "a network of the site; from this one, nodes would accept everything of every "
                "machine, as without os.firewall",
            )
            for number, one in enumerate(cluster.os.firewall.trusted if cluster.os.firewall else ())
        ),
    )
    unknown = list(_unknown_releases(cluster))
    yield from unknown
    if not unknown:
        yield from _versions(cluster, roles)


def _unknown_releases(cluster: Cluster) -> Iterator[Problem]:
    known = operating_systems.known()
    allowed = "one of " + ", ".join(known)
    if cluster.os.release not in known:
        yield Problem(("os", "release"), cluster.os.release, allowed)
    for index, group in enumerate(cluster.nodes):
        if group.release is not None and group.release not in known:
            yield Problem(("nodes", index, "release"), group.release, allowed, group.name)


def _versions(cluster: Cluster, roles: Iterable[DeclaredRole]) -> Iterator[Problem]:
    """Find versions of packages that no node gets."""
    stack, roles = cluster.software.nvidia, tuple(roles)
    packages = {
        name: dict.fromkeys(
            (
                *every_package(release, roles),
                *(
                    nvidia.packaging(stack.packaging, stack.driver, release).every_package(
                        stack.driver, stack.cuda
                    )
                    if stack
                    else ()
                ),
                *job_containers.every_package(),
                *doca.packages(cluster.software.doca_ofed),
            )
        )
        for name in dict.fromkeys((*cluster.releases, *cluster.software.versions_on))
        if (release := operating_systems.find(name)) is not None
    }
    for field, versions, allowed in (
        (("versions",), cluster.software.versions, dict(ChainMap(*packages.values()))),
        *(
            (("versions_on", release), versions, packages[release])
            for release, versions in cluster.software.versions_on.items()
            if release in packages
        ),
    ):
        yield from violated(
            ("software", *field),
            *(
                (one not in allowed, (one,), one, f"one of {', '.join(allowed)}")
                for one in versions
            ),
        )


def _jobs_have_memory(cluster: Cluster) -> Iterator[Problem]:
    workers = [group for group in cluster.nodes if group.role is NodeRole.WORKER]
    reserved_by: dict[tuple[str, int], None] = {}
    for group in workers:
        kind = cluster.scheduler_of(group)
        settings = cluster.slurm if kind == "slurm" else cluster.kubernetes
        if settings is not None and group.hardware in cluster.hardware:
            reserved_by[group.hardware, settings.system_memory_mib] = None
    for name, reserved in reserved_by:
        hardware = cluster.hardware[name]
        left = hardware.slurm_memory_mib - reserved
        if left < hardware.cpus and not too_many_cpus(name, hardware):
            yield Problem(
                ("hardware", name, "memory_mib"),
                f"{hardware.memory_mib} MiB: {MEMORY_SHARE:.0%} of this, minus "
                f"{hardware.hugepages_mib} MiB for huge pages and {reserved} MiB for the system, "
                f"leaves {left} MiB for jobs",
                f"at least 1 MiB for each of the {hardware.cpus} CPUs",
            )


def _groups(cluster: Cluster) -> Iterator[Problem]:
    for index, group in enumerate(cluster.nodes):
        yield from violated(
            ("nodes", index),
            (
                group.hardware not in cluster.hardware,
                ("hardware",),
                group.hardware,
                "one of " + ", ".join(sorted(cluster.hardware)),
            ),
            (
                group.runs and group.role is not NodeRole.HEAD,
                ("runs",),
                ", ".join(service.value for service in group.runs),
                "leave it out: only nodes with role head run services",
            ),
            node=group.name,
        )


def _partitions(cluster: Cluster) -> Iterator[Problem]:
    partitions = cluster.slurm.partitions if cluster.slurm else ()
    workers = {
        name
        for group in cluster.nodes
        if cluster.scheduler_of(group) == "slurm"
        for name in names.expand(group.name)
    }
    named = [partition.name for partition in partitions]
    default = next((partition.name for partition in partitions if partition.default), "")
    for index, partition in enumerate(partitions):
        path = ("scheduler", "partitions", index)
        unknown = fold({*names.expand(partition.nodes)} - workers)
        if unknown:
            yield Problem(
                (*path, "nodes"),
                unknown,
                f"workers of Slurm: {fold(workers) or 'there are none'}",
                node=unknown,
            )
        again = partition.name in named[:index]
        yield from violated(
            path,
            (again, ("name",), partition.name, "a unique name among the partitions"),
            (
                # _parse_partitionname in Slurm's read_config.c compares without regard to case.
                partition.name.lower() == "default",
                ("name",),
                partition.name,
                "another name: in slurm.conf, it sets the defaults of the lines that follow",
            ),
            (
                partition.default and partition.name != default and not again,
                ("default",),
                "True",
                f"one default partition; {default} is already the default",
            ),
        )
