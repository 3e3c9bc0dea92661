"""Validates fields against each other; finds all problems in a description in one pass."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Protocol

from netaddr import IPAddress
from pydantic import BaseModel

from lockstep.catalog import job_containers, nvidia
from lockstep.catalog import os as operating_systems
from lockstep.catalog.os import Release
from lockstep.report import alike, fold
from lockstep.spec import names
from lockstep.spec.expand import RAIL_SHIFT, nodes
from lockstep.spec.hardware import MEMORY_SHARE
from lockstep.spec.model import Cluster, Network, NodeRole, Service
from lockstep.spec.problem import Problem, violated
from lockstep.spec.validate_checks import check_problems, class_problems
from lockstep.spec.validate_hardware import hardware_problems
from lockstep.spec.validate_network import network_problems
from lockstep.spec.validate_nvlink import nvlink_problems
from lockstep.spec.validate_release import release_problems
from lockstep.spec.validate_repositories import repository_problems
from lockstep.spec.validate_slurm import slurm_problems
from lockstep.spec.validate_software import software_problems

BITS = {4: 32, 6: 128}
"""IP version -> length of an address in bits."""

OWNED_SYSCTLS = {
    "kernel.numa_balancing": "hardware.CLASS.kernel.numa_balancing",
    "vm.hugetlb_shm_group": "os.hugetlb_gid",
    "vm.nr_hugepages": "hardware.CLASS.hugepages",
}
"""Sysctl -> the field that sets it; ``os.sysctl`` must not set it as well."""


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
    return [
        *independent(cluster, roles),
        *_uncountable(cluster),
        *_groups(cluster),
        *release_problems(cluster),
        *repository_problems(cluster),
        *network_problems(cluster),
        *software_problems(cluster),
        *_jobs_have_memory(cluster),
        *class_problems(cluster),
        *_services(cluster),
        *_scheduler(cluster),
        *_partitions(cluster),
        *slurm_problems(cluster),
        *nvlink_problems(cluster),
    ]


def independent(cluster: Cluster, roles: Iterable[DeclaredRole]) -> list[Problem]:
    """Return the problems that do not depend on other parts of the description.

    They can be reported even when invalid parts are left out, because a missing part cannot cause
    them.
    """
    return [
        *_os(cluster, roles),
        *check_problems(cluster.checks),
        *(p for name, h in cluster.hardware.items() for p in hardware_problems(name, h)),
        *_unique_names(cluster),
        *(() if any(_uncountable(cluster)) else _addresses(cluster)),
    ]


def _os(cluster: Cluster, roles: Iterable[DeclaredRole]) -> Iterator[Problem]:
    for key in cluster.os.sysctl:
        yield from violated(
            ("os", "sysctl", key),
            (key in OWNED_SYSCTLS, (), key, f"use the field {OWNED_SYSCTLS.get(key)}"),
            (
                not re.fullmatch(r"[a-z0-9_.\-/]+", key) or "." not in key,
                (),
                key,
                "a sysctl key such as net.core.somaxconn",
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


def _uncountable(cluster: Cluster) -> list[Problem]:
    """Return the problems that make it impossible to compute the nodes' addresses."""
    return [*_networks(cluster)] or [*_room_to_count(cluster)]


def _networks(cluster: Cluster) -> Iterator[Problem]:
    if "management" not in cluster.networks:
        yield Problem(
            ("networks",), "no management network", 'a network named "management" for all nodes'
        )
    for name, network in cluster.networks.items():
        management, several, prefix = name == "management", network.rails > 1, network.prefix
        room = 1 << max(0, 64 - prefix.prefixlen) if prefix.version == 6 else 0
        yield from violated(
            ("networks", name),
            (
                management and several,
                ("rails",),
                str(network.rails),
                "1: only the fabric can have several rails",
            ),
            (
                not management and several and network.rails > room,
                ("prefix",),
                str(prefix),
                f"an IPv6 prefix large enough for {network.rails} rails, one /64 each",
            ),
        )


def _room_to_count(cluster: Cluster) -> Iterator[Problem]:
    """Find groups whose last address would lie outside the address space."""
    fabric = cluster.networks.get("fabric")
    further = 0 if fabric is None else (fabric.rails - 1) << RAIL_SHIFT
    for index, group in enumerate(cluster.nodes):
        steps = len(names.expand(group.name)) - 1
        allowed = f"a lower address: {steps} more must follow it, one per node"
        for kind, first, reach in (
            ("management", group.management, steps),
            ("fabric", group.fabric, steps + further),
        ):
            if first is not None and int(first) + reach >> BITS[first.version]:
                yield Problem(("nodes", index, kind), str(first), allowed, group.name)


def _jobs_have_memory(cluster: Cluster) -> Iterator[Problem]:
    if cluster.scheduler is None:
        return
    reserved = cluster.scheduler.system_memory_mib
    of_workers = {group.hardware for group in cluster.nodes if group.role is NodeRole.WORKER}
    for name, hardware in cluster.hardware.items():
        left = hardware.slurm_memory_mib - reserved
        if name in of_workers and left < hardware.cpus:
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


def _unique_names(cluster: Cluster) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, group in enumerate(cluster.nodes):
        twice = (name for name in names.expand(group.name) if name in first)
        for before, again in alike(twice, first.__getitem__).items():
            yield Problem(
                ("nodes", index, "name"),
                fold(again),
                f"unique names; nodes[{before}] already uses {'them' if len(again) > 1 else 'it'}",
                node=fold(again),
            )
        first = dict.fromkeys(names.expand(group.name), index) | first


def _addresses(cluster: Cluster) -> Iterator[Problem]:
    # Integers are faster than netaddr objects: 2,000 nodes with 8 rails need 18,000 comparisons.
    owner: dict[tuple[int, int], tuple[str, str]] = {}
    networks = {str(name): network for name, network in cluster.networks.items()}
    wrong = []
    for node in nodes(cluster):
        for kind, addresses in (("management", (node.management,)), ("fabric", node.fabric)):
            for rail, address in enumerate(addresses):
                allowed, other = _allowed_address(kind, rail, address, networks.get(kind)), ""
                if allowed is None:
                    first = owner.setdefault((address.version, int(address)), (node.name, kind))
                    if first != (node.name, kind):
                        allowed, other = "unique addresses; already used by {}", first[0]
                if allowed is not None:
                    wrong.append((node.group, kind, allowed, str(address), other, node.name))
    # One problem per range and reason: 2,000 nodes in the wrong network are one mistake.
    for (group, kind, allowed), found in alike(wrong, itemgetter(0, 1, 2)).items():
        _, _, _, addresses, others, owners = zip(*found, strict=True)
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Problem(
            ("nodes", group, kind),
            f"{addresses[0]}{more}",
            allowed.format(fold({*others} - {""})),
            node=fold({*owners}),
        )


def _allowed_address(
    kind: str, rail: int, address: IPAddress, network: Network | None
) -> str | None:
    """Return the addresses that would be allowed; None when the address is valid."""
    if network is None:
        return f"no {kind} address, or a network named {kind!r}"
    prefix = network.prefix
    on_first_rail = int(address) - (rail << RAIL_SHIFT)
    if address.version != prefix.version or not prefix.first <= on_first_rail <= prefix.last:
        return f"addresses in the {kind} network {prefix}"
    if network.rails > 1 and on_first_rail >> RAIL_SHIFT != prefix.first >> RAIL_SHIFT:
        # expand() uses the r-th /64 of the prefix for rail r.
        first_rail = f"{IPAddress(prefix.first, prefix.version)}/64"
        return f"addresses on the first rail, {first_rail}; Lockstep derives the others"
    return None


def _services(cluster: Cluster) -> Iterator[Problem]:
    for service, allowed in (
        (Service.SLURM_CONTROLLER, "one controller (a second one would need shared state)"),
        (Service.SLURM_ACCOUNTING, "one accounting database"),
        (Service.PROMETHEUS, "one Prometheus"),
    ):
        first, *others = [
            (name, index)
            for index, group in enumerate(cluster.nodes)
            if group.role is NodeRole.HEAD and service in group.runs
            for name in names.expand(group.name)
        ] or [("", 0)]
        for index, further in alike(others, itemgetter(1)).items():
            more = fold(name for name, _ in further)
            yield Problem(
                ("nodes", index, "runs"),
                f"{service.value} on {first[0]} and {more}",
                allowed,
                node=more,
            )


def _scheduler(cluster: Cluster) -> Iterator[Problem]:
    workers = [group for group in cluster.nodes if group.role is NodeRole.WORKER]
    found = ((group.name, operating_systems.find(cluster.release_of(group))) for group in workers)
    able = [name for name, release in found if not release or release.supports("slurm_worker")]
    if able and cluster.scheduler is None:
        yield Problem(
            ("scheduler",),
            "no scheduler",
            '{"kind": "slurm"}: nodes with role worker need a scheduler',
            node=able[0],
        )
    for service in (Service.SLURM_CONTROLLER, Service.SLURM_ACCOUNTING):
        running = [index for index, group in enumerate(cluster.nodes) if service in group.runs]
        if cluster.scheduler is not None and not running:
            yield Problem(
                ("nodes",),
                f"no node runs {service.value}",
                f'runs: ["{service.value}"] on a head node',
            )
        if cluster.scheduler is None and running:
            yield Problem(
                ("nodes", running[0], "runs"),
                service.value,
                'set scheduler to {"kind": "slurm"}, which this service needs',
                node=names.expand(cluster.nodes[running[0]].name)[0],
            )


def _partitions(cluster: Cluster) -> Iterator[Problem]:
    partitions = cluster.scheduler.partitions if cluster.scheduler else ()
    workers = {
        name
        for group in cluster.nodes
        if group.role is NodeRole.WORKER
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
                f"worker nodes: {fold(workers) or 'there are none'}",
                node=unknown,
            )
        again = partition.name in named[:index]
        yield from violated(
            path,
            (again, ("name",), partition.name, "a unique name among the partitions"),
            (
                partition.default and partition.name != default and not again,
                ("default",),
                "True",
                f"one default partition; {default} is already the default",
            ),
        )
