"""Validates fields against each other; finds all problems of a description in one pass."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from netaddr import IPAddress

from lockstep.catalog import job_containers, nvidia
from lockstep.catalog import os as operating_systems
from lockstep.report import fold
from lockstep.spec import names
from lockstep.spec.expand import RAIL_SHIFT, Node, nodes
from lockstep.spec.hardware import MEMORY_SHARE
from lockstep.spec.model import Cluster, Network, Role, Service
from lockstep.spec.problem import Problem
from lockstep.spec.roles import DeclaredRole
from lockstep.spec.validate_checks import check_problems, class_problems
from lockstep.spec.validate_hardware import hardware_problems
from lockstep.spec.validate_job_containers import job_container_problems
from lockstep.spec.validate_nvidia import nvidia_problems

BITS = {4: 32, 6: 128}
"""IP version -> length of an address."""

OWNED_SYSCTLS = {
    "kernel.numa_balancing": "hardware.CLASS.kernel.numa_balancing",
    "vm.hugetlb_shm_group": "os.hugetlb_gid",
    "vm.nr_hugepages": "hardware.CLASS.hugepages",
}
"""Sysctl -> the field that sets it; a second setting would overwrite it."""


def problems(cluster: Cluster, roles: Iterable[DeclaredRole]) -> list[Problem]:
    """Return all conflicts between fields; empty when the cluster can be planned."""
    uncountable = [*_networks(cluster)] or [*_room_to_count(cluster)]
    alone = [
        *_os(cluster, roles),
        *uncountable,
        *(
            found
            for name, group in cluster.hardware.items()
            for found in hardware_problems(name, group)
        ),
        *_classes_exist(cluster),
        *_not_yet(cluster),
        *nvidia_problems(cluster),
        *job_container_problems(cluster),
        *_jobs_have_memory(cluster),
        *check_problems(cluster.checks),
        *class_problems(cluster),
    ]
    if uncountable:
        return alone  # without valid networks there are no addresses to validate
    all_nodes = tuple(nodes(cluster))
    return [
        *alone,
        *_unique_names(all_nodes),
        *_addresses(cluster, all_nodes),
        *_services(cluster, all_nodes),
        *_partitions(cluster, all_nodes),
    ]


def independent(cluster: Cluster, roles: Iterable[DeclaredRole]) -> list[Problem]:
    """Return the problems that do not depend on other parts of the description.

    For a description with invalid parts left out: none of these problems is caused by a missing
    part.
    """
    found = [
        *_os(cluster, roles),
        *check_problems(cluster.checks),
        *(p for name, h in cluster.hardware.items() for p in hardware_problems(name, h)),
    ]
    if "management" not in cluster.networks or [*_networks(cluster), *_room_to_count(cluster)]:
        return found
    all_nodes = tuple(nodes(cluster))
    return [*found, *_unique_names(all_nodes), *_addresses(cluster, all_nodes)]


def _os(cluster: Cluster, roles: Iterable[DeclaredRole]) -> Iterator[Problem]:
    if cluster.os.release not in operating_systems.known():
        yield Problem(
            ("os", "release"), cluster.os.release, "one of " + ", ".join(operating_systems.known())
        )
    for key in cluster.os.sysctl:
        if key in OWNED_SYSCTLS:
            yield Problem(("os", "sysctl", key), key, f"the field {OWNED_SYSCTLS[key]}")
        if not re.fullmatch(r"[a-z0-9_.\-/]+", key) or "." not in key:
            yield Problem(("os", "sysctl", key), key, "a sysctl key such as net.core.somaxconn")
    if cluster.os.release in operating_systems.known():
        release = operating_systems.load(cluster.os.release)
        of_roles = {name for role in roles for name in role.packages_on(release)}
        packages = (
            *sorted(of_roles | set(release.every_package)),
            *_stack_packages(cluster),
            *job_containers.every_package(),
        )
        for name in cluster.software.versions:
            if name not in packages:
                yield Problem(("software", "versions", name), name, "one of " + ", ".join(packages))


def _stack_packages(cluster: Cluster) -> tuple[str, ...]:
    stack = cluster.software.nvidia
    return nvidia.load(stack.packaging).every_package(stack.driver, stack.cuda) if stack else ()


def _not_yet(cluster: Cluster) -> Iterator[Problem]:
    """Reject settings that Lockstep cannot apply on the release yet, before a partial deploy."""
    if cluster.os.release not in operating_systems.known():
        return
    release = operating_systems.load(cluster.os.release)
    name = cluster.os.release
    if release.can("packages"):
        return
    for wanted, path, found in (
        (cluster.scheduler is not None, ("scheduler",), "slurm"),
        (bool(cluster.software.versions), ("software", "versions"), "locked versions"),
        (bool(cluster.time.servers), ("time", "servers"), "chrony"),
        (cluster.os.automatic_upgrades, ("os", "automatic_upgrades"), "True"),
        (not cluster.os.locale.startswith("C."), ("os", "locale"), cluster.os.locale),
    ):
        if wanted:
            yield Problem(path, found, f"leave it out: no package support on {name} yet")
    for index, group in enumerate(cluster.nodes):
        hardware = cluster.hardware.get(group.hardware)
        for wanted, field, found in (
            (bool(group.runs), "runs", ", ".join(service.value for service in group.runs)),
            (group.fabric is not None, "fabric", str(group.fabric)),
            (hardware is not None and hardware.nics.rdma != "none", "hardware", group.hardware),
        ):
            if wanted:
                yield Problem(
                    ("nodes", index, field),
                    found,
                    f"leave it out: no package support on {name} yet",
                    node=group.name,
                )


def _networks(cluster: Cluster) -> Iterator[Problem]:
    if "management" not in cluster.networks:
        yield Problem(
            ("networks",), "no management network", 'a network "management" for all nodes'
        )
    for name, network in cluster.networks.items():
        if name == "management" and network.rails > 1:
            yield Problem(
                ("networks", name, "rails"), str(network.rails), "1: only the fabric can have more"
            )
        elif network.rails > 1 and (
            network.prefix.version != 6
            or network.rails > 1 << max(0, 64 - network.prefix.prefixlen)
        ):
            yield Problem(
                ("networks", name, "prefix"),
                str(network.prefix),
                f"an IPv6 prefix large enough for {network.rails} rails, one /64 each",
            )


def _room_to_count(cluster: Cluster) -> Iterator[Problem]:
    """Find groups whose last address would exceed the address space."""
    fabric = cluster.networks.get("fabric")
    for index, group in enumerate(cluster.nodes):
        steps = len(names.expand(group.name)) - 1
        further = 0 if fabric is None else (fabric.rails - 1) << RAIL_SHIFT
        for kind, first, reach in (
            ("management", group.management, steps),
            ("fabric", group.fabric, steps + further),
        ):
            if first is not None and int(first) + reach >> BITS[first.version]:
                yield Problem(
                    ("nodes", index, kind),
                    str(first),
                    f"a first address followed by {steps} more, one per node",
                    node=group.name,
                )


def _jobs_have_memory(cluster: Cluster) -> Iterator[Problem]:
    if cluster.scheduler is None:
        return
    for name in sorted({g.hardware for g in cluster.nodes if g.role is Role.WORKER}):
        hardware = cluster.hardware.get(name)
        if hardware is None:
            continue
        left = hardware.slurm_memory_mib - cluster.scheduler.system_memory_mib
        if left < hardware.cpus:
            yield Problem(
                ("hardware", name, "memory_mib"),
                f"{hardware.memory_mib}: {MEMORY_SHARE:.0%} of it, minus {hardware.hugepages_mib} "
                f"of huge pages and {cluster.scheduler.system_memory_mib} of system_memory_mib, "
                f"leaves {left} MiB for jobs",
                f"at least 1 MiB for each of the {hardware.cpus} CPUs",
            )


def _classes_exist(cluster: Cluster) -> Iterator[Problem]:
    for index, group in enumerate(cluster.nodes):
        if group.hardware not in cluster.hardware:
            yield Problem(
                ("nodes", index, "hardware"),
                group.hardware,
                "one of " + ", ".join(sorted(cluster.hardware)),
                node=group.name,
            )


def _unique_names(all_nodes: tuple[Node, ...]) -> Iterator[Problem]:
    seen: dict[str, Node] = {}
    again: dict[tuple[int, int], list[str]] = {}
    for node in all_nodes:
        if (first := seen.setdefault(node.name, node)) is not node:
            again.setdefault((node.group, first.group), []).append(node.name)
    for (group, before), twice in again.items():
        yield Problem(
            ("nodes", group, "name"),
            fold(twice),
            f"unique names; nodes[{before}] already has {'them' if len(twice) > 1 else 'it'}",
            node=fold(twice),
        )


def _addresses(cluster: Cluster, all_nodes: tuple[Node, ...]) -> Iterator[Problem]:
    # Integers are faster than netaddr objects: 2,000 nodes with 8 rails need 18,000 comparisons.
    owner: dict[tuple[int, int], tuple[str, str]] = {}
    networks = {str(name): network for name, network in cluster.networks.items()}
    wrong: dict[tuple[int, str, str], list[tuple[str, str, str]]] = {}
    for node in all_nodes:
        for kind, addresses in (("management", (node.management,)), ("fabric", node.fabric)):
            for rail, address in enumerate(addresses):
                allowed, other = _allowed_address(kind, rail, address, networks.get(kind)), ""
                if allowed is None:
                    key = (address.version, int(address))
                    first = owner.setdefault(key, (node.name, kind))
                    if first != (node.name, kind):
                        allowed, other = "unique addresses; {} already has them", first[0]
                if allowed is not None:
                    wrong.setdefault((node.group, kind, allowed), []).append(
                        (node.name, str(address), other)
                    )
    # One problem per range and reason: 2,000 nodes in a wrong network are one mistake.
    for (group, kind, allowed), found in wrong.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        others = fold({other for _, _, other in found if other})
        yield Problem(
            ("nodes", group, kind),
            f"{found[0][1]}{more}",
            allowed.format(others),
            node=fold({name for name, _, _ in found}),
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
        return f"addresses on the first rail, {first_rail}; those of the other rails follow from it"
    return None


def _services(cluster: Cluster, all_nodes: tuple[Node, ...]) -> Iterator[Problem]:
    running = {service: [node for node in all_nodes if service in node.runs] for service in Service}
    for index, group in enumerate(cluster.nodes):
        if group.runs and group.role is not Role.HEAD:
            yield Problem(
                ("nodes", index, "runs"),
                ", ".join(service.value for service in group.runs),
                "leave it out: services run on nodes of role head",
                node=group.name,
            )
    limits = {
        Service.SLURM_CONTROLLER: "one controller (a second controller needs shared state)",
        Service.SLURM_ACCOUNTING: "one accounting database",
        Service.PROMETHEUS: "one Prometheus",
    }
    for service, allowed in limits.items():
        heads = [node for node in running[service] if node.role is Role.HEAD]
        for index in sorted({node.group for node in heads[1:]}):
            more = fold(node.name for node in heads[1:] if node.group == index)
            yield Problem(
                ("nodes", index, "runs"),
                f"{service.value} on {heads[0].name} and {more}",
                allowed,
                node=more,
            )
    workers = [node for node in all_nodes if node.role is Role.WORKER]
    can_schedule = cluster.os.release not in operating_systems.known() or operating_systems.load(
        cluster.os.release
    ).can("slurm_worker")
    if workers and cluster.scheduler is None and can_schedule:
        yield Problem(
            ("scheduler",),
            "no scheduler",
            'a scheduler, {"kind": "slurm"}: it is required for nodes of role worker',
            node=cluster.nodes[workers[0].group].name,
        )
    slurm = (Service.SLURM_CONTROLLER, Service.SLURM_ACCOUNTING)
    for service in slurm:
        if cluster.scheduler is not None and not running[service]:
            yield Problem(
                ("nodes",),
                f"no node runs {service.value}",
                f'a head with runs: ["{service.value}"]',
            )
        if cluster.scheduler is None and running[service]:
            yield Problem(
                ("nodes", running[service][0].group, "runs"),
                service.value,
                'a scheduler, {"kind": "slurm"}: this service needs one',
                node=running[service][0].name,
            )


def _partitions(cluster: Cluster, all_nodes: tuple[Node, ...]) -> Iterator[Problem]:
    if cluster.scheduler is None:
        return
    workers = {node.name for node in all_nodes if node.role is Role.WORKER}
    named = [p.name for p in cluster.scheduler.partitions]
    defaults = [p.name for p in cluster.scheduler.partitions if p.default]
    for index, partition in enumerate(cluster.scheduler.partitions):
        path = ("scheduler", "partitions", index)
        unknown = [name for name in names.expand(partition.nodes) if name not in workers]
        if unknown:
            yield Problem(
                (*path, "nodes"),
                fold(unknown),
                f"names of nodes of role worker: {fold(workers) or 'there are none'}",
                node=fold(unknown),
            )
        if partition.name in named[:index]:
            yield Problem((*path, "name"), partition.name, "a unique name among the partitions")
        elif partition.default and defaults[0] != partition.name:
            allowed = f"one default; {defaults[0]} is already the default"
            yield Problem((*path, "default"), "True", allowed)
