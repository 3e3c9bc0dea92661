"""Validates the settings of Kubernetes: versions, networks, and what its nodes need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from netaddr import IPAddress, IPNetwork

from lockstep.catalog import os as operating_systems
from lockstep.catalog.kubernetes import minor_version
from lockstep.spec import names
from lockstep.spec.kubernetes import PACKAGES, SERIES, Kubernetes
from lockstep.spec.model import Cluster, NodeGroup, NodeRole, Service
from lockstep.spec.problem import Problem, violated
from lockstep.spec.validate_kubernetes_objects import object_problems

LARGEST_SERVICE_BITS = 20
"""Bits of a Service's address after the prefix; the API server refuses more
(cmd/kube-apiserver/app/options/validation.go: maxCIDRBits)."""
MOST_NODE_BITS = 16
"""kube-controller-manager makes at most 2^16 networks for nodes, each a /64, or a /24 with IPv4
(kubeadm, apis/kubeadm/validation: ValidatePodSubnetNodeMask)."""
PORTS = (2379, 2380, 2381, 10248, 10249, 10250, 10256, 10257, 10259)
"""Of etcd, the kubelet, kube-proxy, the controller manager and the scheduler (Kubernetes, Ports and
Protocols; kubeadm, constants.go)."""
CONTROL_PLANES = (1, 3, 5)
"""Nodes of a control plane whose etcd keeps a majority when one of them is lost (etcd.io, FAQ)."""

MINOR = re.compile(r"1\.[0-9]{1,3}")
NEEDS = (
    (35, "the kubelet does not start with cgroup v1"),
    (36, "the kubelet needs containerd 2, which Debian 13 does not have"),
)
"""First minor version, and what it needs (kubelet, FailCgroupV1; Container Runtimes)."""


def kubernetes_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find settings of Kubernetes that contradict each other or the nodes."""
    found = cluster.kubernetes
    if found is None:
        for index, group in enumerate(cluster.nodes):
            yield from violated(
                ("nodes", index),
                (group.pods, ("pods",), str(group.pods), "leave it out: there is no Kubernetes"),
                node=group.name,
            )
        return
    here = _path(cluster, found)
    yield from _settings(cluster, found, here)
    yield from object_problems(found, here)
    yield from _control_plane(cluster, found, here)
    yield from _pods(cluster, found, here)
    yield from _software(cluster, found)
    yield from _gpus(cluster, found, (*here, "gpus"))


def _path(cluster: Cluster, settings: Kubernetes) -> tuple[str | int, ...]:
    """Return where the description has the settings of Kubernetes."""
    if isinstance(cluster.scheduler, tuple):
        return ("scheduler", cluster.scheduler.index(settings))
    return ("scheduler",)


def _settings(
    cluster: Cluster, settings: Kubernetes, here: tuple[str | int, ...]
) -> Iterator[Problem]:
    management = cluster.networks.get("management")
    version = management.prefix.version if management else settings.pod_prefix.version
    bits = (32 if settings.service_prefix.version == 4 else 128) - settings.service_prefix.prefixlen
    node_bits = 64 if settings.pod_prefix.version == 6 else 24
    series = settings.minor_version
    kubelet = settings.kubelet
    yield from violated(
        here,
        (
            series not in SERIES or len(settings.version.split(".")) != 3,
            ("version",),
            settings.version,
            f"a version of {' or '.join(SERIES)}, such as {SERIES[-1]}.0{_needs(series)}",
        ),
        *(
            (
                prefix.version != version,
                (field,),
                str(prefix),
                f"an IPv{version} network, as the management network",
            )
            for field, prefix in (
                ("pod_prefix", settings.pod_prefix),
                ("service_prefix", settings.service_prefix),
            )
        ),
        (
            bits > LARGEST_SERVICE_BITS,
            ("service_prefix",),
            str(settings.service_prefix),
            f"at most 2^{LARGEST_SERVICE_BITS} addresses: a prefix of at least "
            f"/{108 if settings.service_prefix.version == 6 else 12}",
        ),
        (
            settings.network == "site"
            and not node_bits - MOST_NODE_BITS <= settings.pod_prefix.prefixlen <= node_bits,
            ("pod_prefix",),
            str(settings.pod_prefix),
            f'a prefix of /{node_bits - MOST_NODE_BITS} to /{node_bits}: with network "site", each '
            f"node gets a /{node_bits} of it",
        ),
        (
            kubelet.image_gc_low_percent >= kubelet.image_gc_high_percent,
            ("kubelet", "image_gc_low_percent"),
            str(kubelet.image_gc_low_percent),
            f"less than image_gc_high_percent, {kubelet.image_gc_high_percent}",
        ),
        (
            settings.certificates.renew_days >= settings.certificates.valid_days,
            ("certificates", "renew_days"),
            str(settings.certificates.renew_days),
            f"less than valid_days, {settings.certificates.valid_days}: else each deploy renews",
        ),
        (
            settings.system_memory_mib <= 100,
            ("system_memory_mib",),
            str(settings.system_memory_mib),
            "more than 100 MiB: the kubelet evicts pods when less is left",
        ),
    )
    if settings.api_port in PORTS:
        yield Problem(
            (*here, "api_port"),
            str(settings.api_port),
            f"a port that no other part of Kubernetes has: {', '.join(map(str, PORTS))} are taken",
        )
    networks = [
        ("pod_prefix", settings.pod_prefix),
        ("service_prefix", settings.service_prefix),
        *((f"networks.{name}", one.prefix) for name, one in cluster.networks.items()),
    ]
    for (name, first), (other, second) in combinations(networks, 2):
        if not name.startswith("networks.") and _overlap(first, second):
            yield Problem((*here, name), str(first), f"a network outside of {other}, {second}")


def _control_plane(
    cluster: Cluster, settings: Kubernetes, here: tuple[str | int, ...]
) -> Iterator[Problem]:
    heads = [
        name
        for group in cluster.nodes
        if group.role is NodeRole.HEAD and Service.KUBERNETES_CONTROL_PLANE in group.runs
        for name in names.expand(group.name)
    ]
    unnamed = [
        group.name
        for group in cluster.nodes
        if Service.KUBERNETES_CONTROL_PLANE in group.runs
        and group.hardware in cluster.hardware
        and not cluster.hardware[group.hardware].management_interface
    ]
    management = cluster.networks.get("management")
    address = settings.virtual_address
    yield from violated(
        here,
        (
            len(heads) > 1 and address is None,
            ("virtual_address",),
            "nothing",
            f"an address of the management network: {len(heads)} nodes run the control plane, and "
            "kubelets need one address for all of them",
        ),
        (
            address is not None and management is not None and address not in management.prefix,
            ("virtual_address",),
            str(address),
            f"an address in the management network, {management.prefix if management else ''}",
        ),
        (
            address is not None and bool(unnamed),
            ("virtual_address",),
            str(address),
            f"management_interface in the hardware class of {', '.join(unnamed)}: keepalived keeps "
            "the address there",
        ),
        (
            address is not None and _taken(cluster, address),
            ("virtual_address",),
            str(address),
            "an address that neither a node nor the gateway has",
        ),
    )
    if heads and len(heads) not in CONTROL_PLANES:
        index = next(
            at
            for at, group in enumerate(cluster.nodes)
            if Service.KUBERNETES_CONTROL_PLANE in group.runs
        )
        yield Problem(
            ("nodes", index, "runs"),
            f"{len(heads)} nodes run kubernetes_control_plane",
            "1, 3 or 5 nodes: etcd needs a majority",
        )


def _taken(cluster: Cluster, address: IPAddress) -> bool:
    """Return whether a node or the gateway has an address."""
    management = cluster.networks.get("management")
    if management is not None and address == management.gateway:
        return True
    return any(
        address.version == first.version
        and int(first) <= int(address) < int(first) + len(names.expand(group.name))
        for group in cluster.nodes
        for first in (group.management, group.management_second)
        if first is not None
    )


def _pods(cluster: Cluster, settings: Kubernetes, here: tuple[str | int, ...]) -> Iterator[Problem]:
    seen: list[tuple[str, Range]] = []
    for index, group in enumerate(cluster.nodes):
        member = _is_member(cluster, group)
        needs = member and settings.network == "routed"
        whole = _of_group(group)
        release = operating_systems.find(cluster.release_of(group))
        yield from violated(
            ("nodes", index),
            (
                member and release is not None and release.family != "debian",
                ("release",),
                cluster.release_of(group),
                "a release of the Debian family: on others, Kubernetes was not tried yet",
            ),
            (
                needs and group.pods is None,
                ("pods",),
                "nothing",
                f"the network of the pods of {names.expand(group.name)[0]}, a part of "
                f"{settings.pod_prefix}",
            ),
            (
                not member and group.pods is not None,
                ("pods",),
                str(group.pods),
                "leave it out: these nodes do not belong to Kubernetes",
            ),
            (
                member and whole is not None and not _inside(whole, settings.pod_prefix),
                ("pods",),
                str(group.pods),
                f"a network in pod_prefix, {settings.pod_prefix}, with room for "
                f"{len(names.expand(group.name))} nodes",
            ),
            *(
                (
                    member and whole is not None and _meets(whole, other),
                    ("pods",),
                    str(group.pods),
                    f"a network apart from those of the pods of {name}",
                )
                for name, other in seen
            ),
            node=group.name,
        )
        if member and whole is not None:
            seen.append((group.name, whole))


def _needs(series: str) -> str:
    """Return what a later version needs that no node may have, for the message that refuses it."""
    minor = int(series.partition(".")[2]) if MINOR.fullmatch(series) else 0
    return "".join(f". From 1.{first}, {what}" for first, what in NEEDS if minor >= first)


def _software(cluster: Cluster, settings: Kubernetes) -> Iterator[Problem]:
    """Find software that Kubernetes does not work with, and repositories without its packages."""
    series = settings.minor_version
    offered = {
        minor: number
        for number, one in enumerate(cluster.software.repositories)
        if (minor := minor_version(one.uri, one.suite))
    }
    if offered and series in SERIES and series not in offered:
        minor, number = next(iter(offered.items()))
        yield Problem(
            ("software", "repositories", number, "uri"),
            cluster.software.repositories[number].uri,
            f"the repository of {series}, as scheduler.version is {settings.version}; this one has "
            f"only {minor}",
        )
    firewall, engines = cluster.os.firewall, cluster.software.containers.engines
    takes_pods = any(cluster.scheduler_of(group) == "kubernetes" for group in cluster.nodes)
    locked = cluster.software.versions
    yield from violated(
        ("os", "firewall"),
        (
            firewall is not None and firewall.kind == "firewalld",
            ("kind",),
            "firewalld",
            "nftables: firewalld filters the packets between pods, too, and knows no pods",
        ),
    )
    yield from violated(
        ("software", "containers"),
        (
            takes_pods and "containerd" not in engines,
            ("engines",),
            ", ".join(engines) or "nothing",
            "containerd among the engines: kubelets start pods with it",
        ),
    )
    yield from violated(
        ("software", "versions"),
        *(
            (
                name in locked and not locked[name].startswith(f"{settings.version}-"),
                (name,),
                locked.get(name, ""),
                f"leave it out: scheduler.version, {settings.version}, says which version the "
                "nodes get",
            )
            for name in PACKAGES
        ),
    )


def _gpus(cluster: Cluster, settings: Kubernetes, here: tuple[str | int, ...]) -> Iterator[Problem]:
    """Find a way to GPUs that cannot work."""
    gpus, stack = settings.gpus, cluster.software.nvidia
    workers = [
        group
        for group in cluster.nodes
        if cluster.scheduler_of(group) == "kubernetes"
        and group.hardware in cluster.hardware
        and cluster.hardware[group.hardware].nvidia_gpu is not None
    ]
    oci = gpus.repository.startswith("oci://")
    yield from violated(
        here,
        (
            gpus.deploy != "none"
            and bool(workers)
            and (stack is None or stack.container_toolkit is None),
            ("deploy",),
            gpus.deploy,
            "none, or software.nvidia with container_toolkit: containers get GPUs from the host's "
            "driver and toolkit",
        ),
        (
            gpus.plain_http and not oci,
            ("plain_http",),
            "True",
            "False: only a chart_repository that begins with oci:// may be without TLS",
        ),
        *(
            (
                gpus.deploy == "none" and value is not None,
                (field,),
                str(value),
                'leave it out: with deploy "none", Lockstep installs no chart',
            )
            for field, value in (
                ("chart_repository", gpus.chart_repository),
                ("chart_version", gpus.chart_version),
            )
        ),
    )


Range = tuple[int, int]


def _of_group(group: NodeGroup) -> Range | None:
    """Return the first and the last address of the pods of a group."""
    if group.pods is None:
        return None
    size = group.pods.size * len(names.expand(group.name))
    return (group.pods.first, group.pods.first + size - 1)


def _inside(whole: Range, prefix: IPNetwork) -> bool:
    return bool(whole[0] >= prefix.first and whole[1] <= prefix.last)


def _meets(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _overlap(one: IPNetwork, other: IPNetwork) -> bool:
    return bool(one.version == other.version and (one in other or other in one))


def _is_member(cluster: Cluster, group: NodeGroup) -> bool:
    """Return whether the nodes of a group belong to Kubernetes."""
    return (
        cluster.scheduler_of(group) == "kubernetes"
        or Service.KUBERNETES_CONTROL_PLANE in group.runs
    )
