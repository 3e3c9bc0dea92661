"""Fields judged against each other: every problem of a description, found in one pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from netaddr import IPAddress

from lockstep.catalog import gpus
from lockstep.catalog import os as operating_systems
from lockstep.spec import names
from lockstep.spec.expand import RAIL_SHIFT, Node, nodes
from lockstep.spec.model import Cluster, Gpu, HardwareClass, Network, Role, Service
from lockstep.spec.problem import Problem


def problems(cluster: Cluster) -> list[Problem]:
    """Return everything that is wrong between fields; empty when the cluster can be planned."""
    all_nodes = tuple(nodes(cluster))
    return [
        *_os(cluster),
        *(found for name, network in cluster.networks.items() for found in _network(name, network)),
        *(found for name, group in cluster.hardware.items() for found in _hardware(name, group)),
        *_classes_exist(cluster),
        *_unique_names(all_nodes),
        *_addresses(cluster, all_nodes),
        *_services(cluster, all_nodes),
        *_partitions(cluster, all_nodes),
    ]


def _os(cluster: Cluster) -> Iterator[Problem]:
    if cluster.os.release not in operating_systems.known():
        yield Problem(
            ("os", "release"), cluster.os.release, "one of " + ", ".join(operating_systems.known())
        )
    for key in cluster.os.sysctl:
        if not re.fullmatch(r"[a-z0-9_.\-/]+", key) or "." not in key:
            yield Problem(("os", "sysctl", key), key, "a sysctl key such as net.core.somaxconn")


def _network(name: str, network: Network) -> Iterator[Problem]:
    if name == "management" and network.rails > 1:
        yield Problem(
            ("networks", name, "rails"), str(network.rails), "1: only the fabric has rails"
        )
    if network.rails > 1 and (
        network.prefix.version != 6 or network.rails > 1 << max(0, 64 - network.prefix.prefixlen)
    ):
        yield Problem(
            ("networks", name, "prefix"),
            str(network.prefix),
            f"an IPv6 prefix with room for {network.rails} rails, each a /64",
        )


def _hardware(name: str, hardware: HardwareClass) -> Iterator[Problem]:
    path = ("hardware", name)
    yield from _housekeeping(path, hardware)
    yield from _hugepages(path, hardware)
    if hardware.sockets * hardware.cores_per_socket % hardware.numa_nodes:
        yield Problem(
            (*path, "numa_nodes"),
            str(hardware.numa_nodes),
            f"a divisor of the {hardware.sockets * hardware.cores_per_socket} cores",
        )
    if hardware.gpu is not None:
        yield from _gpu((*path, "gpu"), hardware, hardware.gpu)
    if hardware.boot_loader == "none" and (hardware.kernel_args or hardware.hugepages):
        yield Problem(
            (*path, "boot_loader"),
            "none",
            '"grub": kernel_args and hugepages need a kernel command line',
        )
    for number, argument in enumerate(hardware.kernel_args):
        if not re.fullmatch(r"[A-Za-z0-9_.,:;=/@+-]+", argument):
            yield Problem(
                (*path, "kernel_args", number), repr(argument), "one kernel argument, no spaces"
            )


def _housekeeping(path: tuple[str, ...], hardware: HardwareClass) -> Iterator[Problem]:
    chosen = names.cpus(hardware.housekeeping_cpus)
    missing = sorted(cpu for cpu in chosen if cpu >= hardware.cpus)
    if missing:
        yield Problem(
            (*path, "housekeeping_cpus"),
            f"{hardware.housekeeping_cpus}: CPU {names.cpulist(missing)} does not exist",
            f"CPUs 0-{hardware.cpus - 1} ({hardware.sockets} sockets x "
            f"{hardware.cores_per_socket} cores x {hardware.threads_per_core} threads)",
        )
        return
    if len(chosen) == hardware.cpus:
        yield Problem(
            (*path, "housekeeping_cpus"),
            f"{hardware.housekeeping_cpus}: all CPUs",
            "a part of the CPUs; jobs need the others",
        )
    split = sorted(
        sibling for cpu in chosen for sibling in siblings(hardware, cpu) if sibling not in chosen
    )
    if split:
        yield Problem(
            (*path, "housekeeping_cpus"),
            f"{hardware.housekeeping_cpus}: shares cores with CPU {names.cpulist(split)}",
            f"whole cores: {names.cpulist(chosen | set(split))}",
        )


def siblings(hardware: HardwareClass, cpu: int) -> tuple[int, ...]:
    """Return the Linux CPU numbers of all threads of the core that ``cpu`` belongs to."""
    threads, cores = hardware.threads_per_core, hardware.cpus // hardware.threads_per_core
    if hardware.cpu_numbering == "threads_last":
        return tuple(cpu % cores + thread * cores for thread in range(threads))
    return tuple(cpu // threads * threads + thread for thread in range(threads))


def _hugepages(path: tuple[str, ...], hardware: HardwareClass) -> Iterator[Problem]:
    memory_mib = hardware.memory_mib // hardware.numa_nodes
    taken: Counter[int] = Counter()
    for index, pages in enumerate(hardware.hugepages):
        here = (*path, "hugepages", index)
        if pages.numa_node >= hardware.numa_nodes:
            yield Problem(
                (*here, "numa_node"), str(pages.numa_node), f"0 to {hardware.numa_nodes - 1}"
            )
            continue
        taken[pages.numa_node] += pages.mib
        if taken[pages.numa_node] >= memory_mib:
            yield Problem(
                (*here, "count"),
                f"{pages.count} pages of {pages.size}: {taken[pages.numa_node]} MiB of huge pages "
                f"on NUMA node {pages.numa_node}",
                f"less than the node's memory, {memory_mib} MiB",
            )


def _gpu(path: tuple[str, ...], hardware: HardwareClass, gpu: Gpu) -> Iterator[Problem]:
    if gpu.model not in gpus.known():
        yield Problem((*path, "model"), gpu.model, "one of " + ", ".join(gpus.known()))
    if gpu.devices:
        listed = names.expand(gpu.devices)
        if len(listed) != gpu.count:
            yield Problem(
                (*path, "devices"),
                f"{gpu.devices}: {len(listed)} devices",
                f"{gpu.count} devices, as gpu.count says",
            )
    if gpu.numa:
        slots = Counter(slot for text in gpu.numa.values() for slot in names.cpus(text))
        if set(slots) != set(range(gpu.count)) or max(slots.values()) > 1:
            yield Problem(
                (*path, "numa"), str(gpu.numa), f"each GPU 0 to {gpu.count - 1} on one NUMA node"
            )
        for node in gpu.numa:
            if node >= hardware.numa_nodes:
                yield Problem(
                    (*path, "numa", node), str(node), f"NUMA node 0 to {hardware.numa_nodes - 1}"
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
    for node in all_nodes:
        if (first := seen.setdefault(node.name, node)) is not node:
            yield Problem(
                ("nodes", node.group, "name"),
                node.name,
                f"a name used once; nodes[{first.group}] has it already",
                node=node.name,
            )


def _addresses(cluster: Cluster, all_nodes: tuple[Node, ...]) -> Iterator[Problem]:
    # Integers, not netaddr objects: 2,000 nodes with 8 rails are 18,000 comparisons.
    owner: dict[tuple[int, int], str] = {}
    networks = {str(name): network for name, network in cluster.networks.items()}
    for node in all_nodes:
        for kind, addresses in (("management", (node.management,)), ("fabric", node.fabric)):
            network = networks.get(kind)
            if network is None and addresses:
                yield Problem(
                    ("nodes", node.group, kind),
                    str(addresses[0]),
                    f"no {kind} address, or a network {kind!r} in networks",
                    node=node.name,
                )
            for rail, address in enumerate(addresses):
                allowed = _allowed_address(kind, rail, address, network)
                key = (address.version, int(address))
                if allowed is None and (other := owner.setdefault(key, node.name)) != node.name:
                    allowed = f"an address used once; {other} has it already"
                if allowed is not None:
                    yield Problem(
                        ("nodes", node.group, kind), str(address), allowed, node=node.name
                    )


def _allowed_address(
    kind: str, rail: int, address: IPAddress, network: Network | None
) -> str | None:
    """Return what would be allowed in place of an address; None when it is right."""
    if network is None:
        return None
    prefix, value = network.prefix, int(address)
    if address.version != prefix.version or not prefix.first <= value <= prefix.last:
        return f"an address in the {kind} network {prefix}"
    if network.rails > 1 and value >> RAIL_SHIFT != (prefix.first >> RAIL_SHIFT) + rail:
        return f"an address of the first rail; counted up, rail {rail} leaves its /64"
    return None


def _services(cluster: Cluster, all_nodes: tuple[Node, ...]) -> Iterator[Problem]:
    running = {service: [node for node in all_nodes if service in node.runs] for service in Service}
    for node in all_nodes:
        if node.runs and node.role is not Role.HEAD:
            yield Problem(
                ("nodes", node.group, "runs"),
                ", ".join(service.value for service in node.runs),
                "nothing: services run on nodes of role head",
                node=node.name,
            )
    limits = {
        Service.SLURM_CONTROLLER: "one controller (a second one needs shared state)",
        Service.SLURM_ACCOUNTING: "one accounting database",
        Service.PROMETHEUS: "one Prometheus",
    }
    for service, allowed in limits.items():
        for node in running[service][1:]:
            yield Problem(
                ("nodes", node.group, "runs"),
                f"{service.value} on {running[service][0].name} and {node.name}",
                allowed,
                node=node.name,
            )
    workers = [node for node in all_nodes if node.role is Role.WORKER]
    if workers and cluster.scheduler is None:
        yield Problem(
            ("scheduler",),
            "no scheduler",
            'a scheduler, {"kind": "slurm"}: nodes of role worker take jobs from it',
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
                'a scheduler, {"kind": "slurm"}, for it',
                node=running[service][0].name,
            )


def _partitions(cluster: Cluster, all_nodes: tuple[Node, ...]) -> Iterator[Problem]:
    if cluster.scheduler is None:
        return
    workers = {node.name for node in all_nodes if node.role is Role.WORKER}
    defaults = [p.name for p in cluster.scheduler.partitions if p.default]
    for index, partition in enumerate(cluster.scheduler.partitions):
        path = ("scheduler", "partitions", index)
        unknown = [name for name in names.expand(partition.nodes) if name not in workers]
        if unknown:
            yield Problem(
                (*path, "nodes"),
                ", ".join(unknown[:5]),
                "names of nodes of role worker",
                node=unknown[0],
            )
        if partition.default and defaults[0] != partition.name:
            yield Problem((*path, "default"), "True", f"one default; {defaults[0]} is it already")
