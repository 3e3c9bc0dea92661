"""Wrong descriptions of Kubernetes: the field, its value, and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lockstep.roles import declared
from lockstep.spec import Problem, load
from tests.spec.kubernetes_example import SLURM, description, with_both

KEYS = Path(__file__).parents[2] / "inventories" / "keys"
Change = Callable[[dict[str, Any]], object]


def problems(change: Change, make: Callable[[], dict[str, Any]] = description) -> list[Problem]:
    wanted = make()
    change(wanted)
    return load(wanted, declared())[1]


class Case(NamedTuple):
    """A change of the example, and the problem that it causes."""

    name: str
    change: Change
    path: tuple[str | int, ...]
    value: str
    allowed: str
    """A part of the text."""
    make: Callable[[], dict[str, Any]] = description


def kube(**fields: object) -> Change:
    return lambda wanted: wanted["scheduler"].update(fields)


def node(index: int, **fields: object) -> Change:
    return lambda wanted: wanted["nodes"][index].update(fields)


def project_repository(minor: str, key: str = "kubernetes.asc") -> Change:
    one = {
        "name": "kubernetes",
        "uri": f"https://pkgs.k8s.io/core:/stable:/v{minor}/deb",
        "suite": "/",
        "key": (KEYS / key).read_text(encoding="ascii"),
    }
    return lambda wanted: wanted["software"]["repositories"].append(one)


HERE = ("scheduler",)
CASES = (
    Case(
        "a version that was not tried",
        kube(version="1.36.1"),
        (*HERE, "version"),
        "1.36.1",
        "1.33 or 1.34, such as 1.34.0. From 1.35, the kubelet does not start with cgroup v1. From "
        "1.36, the kubelet needs containerd 2, which Debian 13 does not have",
    ),
    Case(
        "a version without cgroup v1",
        kube(version="1.35.0"),
        (*HERE, "version"),
        "1.35.0",
        "1.33 or 1.34, such as 1.34.0. From 1.35, the kubelet does not start with cgroup v1",
    ),
    Case(
        "a repository of another minor version",
        project_repository("1.33"),
        ("software", "repositories", 1, "uri"),
        "https://pkgs.k8s.io/core:/stable:/v1.33/deb",
        "the repository of 1.34, as scheduler.version is 1.34.4; this one has only 1.33",
    ),
    Case(
        "another key for the project's repository",
        project_repository("1.34", "example.net.asc"),
        ("software", "repositories", 1, "key"),
        "97F4B05195AA7F6087BD69F81F3006671A98B1A9",
        "only DE15B14486CD377B9E876E1A234654DA9A296436, the Kubernetes project's key for this "
        "repository; download it from https://pkgs.k8s.io/core:/stable:/v1.34/deb/Release.key",
    ),
    Case("a series only", kube(version="1.34"), (*HERE, "version"), "1.34", "such as 1.34.0"),
    Case(
        "pods of another family",
        kube(pod_prefix="10.0.0.0/16"),
        (*HERE, "pod_prefix"),
        "10.0.0.0/16",
        "an IPv6 network",
    ),
    Case(
        "certificates that are always too old",
        kube(certificates={"valid_days": 90}),
        (*HERE, "certificates", "renew_days"),
        "90",
        "less than valid_days, 90",
    ),
    Case(
        "networks of nodes out of a small one",
        kube(pod_prefix="fd00:2::/72", network="site"),
        (*HERE, "pod_prefix"),
        "fd00:2::/72",
        "a prefix of /48 to /64",
    ),
    Case(
        "too many Services",
        kube(service_prefix="fd00:3::/64"),
        (*HERE, "service_prefix"),
        "fd00:3::/64",
        "at least /108",
    ),
    Case(
        "pods among the nodes",
        kube(pod_prefix="fd00:1::/64"),
        (*HERE, "pod_prefix"),
        "fd00:1::/64",
        "outside of networks.management",
    ),
    Case(
        "Services among the pods",
        kube(service_prefix="fd00:2:0:ff::/108"),
        (*HERE, "pod_prefix"),
        "fd00:2::/48",
        "outside of service_prefix",
    ),
    Case(
        "images are kept until more than they are removed from",
        kube(kubelet={"image_gc_low_percent": 90}),
        (*HERE, "kubelet", "image_gc_low_percent"),
        "90",
        "less than image_gc_high_percent, 85",
    ),
    Case(
        "no memory for the system",
        kube(system_memory_mib=100),
        (*HERE, "system_memory_mib"),
        "100",
        "more than 100 MiB",
    ),
    Case(
        "an address of a node",
        kube(virtual_address="fd00:1::10"),
        (*HERE, "virtual_address"),
        "fd00:1::10",
        "that neither a node",
    ),
    Case(
        "an address of a later node of a group",
        kube(virtual_address="fd00:1::102"),
        (*HERE, "virtual_address"),
        "fd00:1::102",
        "that neither a node",
    ),
    Case(
        "the gateway's address",
        lambda wanted: (
            wanted["networks"]["management"].update(gateway="fd00:1::1"),
            wanted["scheduler"].update(virtual_address="fd00:1::1"),
        ),
        (*HERE, "virtual_address"),
        "fd00:1::1",
        "nor the gateway has",
    ),
    Case(
        "a port of etcd",
        kube(api_port=2379),
        (*HERE, "api_port"),
        "2379",
        "a port that no other part of Kubernetes has",
    ),
    Case(
        "an address elsewhere",
        kube(virtual_address="fd00:9::10"),
        (*HERE, "virtual_address"),
        "fd00:9::10",
        "in the management network",
    ),
    Case(
        "three heads without an address for all",
        node(0, name="head[1-3]"),
        (*HERE, "virtual_address"),
        "nothing",
        "3 nodes run the control plane",
    ),
    Case(
        "two heads",
        lambda wanted: (
            wanted["nodes"][0].update(name="head[1-2]"),
            wanted["scheduler"].update(virtual_address="fd00:1::9"),
        ),
        ("nodes", 0, "runs"),
        "2 nodes run kubernetes_control_plane",
        "1, 3 or 5",
    ),
    Case(
        "a node without pods",
        lambda wanted: wanted["nodes"][1].pop("pods"),
        ("nodes", 1, "pods"),
        "nothing",
        "the network of the pods of worker1",
    ),
    Case(
        "pods outside of their network",
        node(1, pods="fd00:5::/64"),
        ("nodes", 1, "pods"),
        "fd00:5::/64",
        "a network in pod_prefix",
    ),
    Case(
        "room for one node only",
        node(1, pods="fd00:2:0:ffff::/64"),
        ("nodes", 1, "pods"),
        "fd00:2:0:ffff::/64",
        "room for 2 nodes",
    ),
    Case(
        "pods of two nodes meet",
        node(1, pods="fd00:2:0:f::/64"),
        ("nodes", 1, "pods"),
        "fd00:2:0:f::/64",
        "apart from those of the pods of head1",
    ),
    Case(
        "a release without Kubernetes",
        node(0, release="rocky_9"),
        ("nodes", 0, "release"),
        "rocky_9",
        "a release of the Debian family",
    ),
    Case(
        "no containerd",
        lambda wanted: wanted["software"].update(containers={"engines": ["podman"]}),
        ("software", "containers", "engines"),
        "podman",
        "kubelets start pods with it",
    ),
    Case(
        "firewalld",
        lambda wanted: wanted["os"].update(firewall={"kind": "firewalld"}),
        ("os", "firewall", "kind"),
        "firewalld",
        "nftables",
    ),
    Case(
        "another version of the kubelet",
        lambda wanted: wanted["software"].update(versions={"kubelet": "1.33.1-1.1"}),
        ("software", "versions", "kubelet"),
        "1.33.1-1.1",
        "scheduler.version, 1.34.4",
    ),
    Case(
        "no head with the control plane",
        node(0, runs=[], pods=None),
        ("nodes",),
        "no node runs kubernetes_control_plane",
        "on a head node",
    ),
    Case(
        "a control plane without Kubernetes",
        lambda wanted: wanted.update(scheduler=SLURM),
        ("nodes", 0, "runs"),
        "kubernetes_control_plane",
        '{"kind": "kubernetes"}',
    ),
    Case(
        "pods without Kubernetes",
        lambda wanted: wanted.update(scheduler=SLURM),
        ("nodes", 1, "pods"),
        "fd00:2:0:101::/64",
        "there is no Kubernetes",
    ),
    Case(
        "a worker of two schedulers",
        lambda wanted: wanted["nodes"][1].pop("scheduler"),
        ("nodes", 1, "scheduler"),
        "nothing",
        "a worker belongs to one scheduler",
        with_both,
    ),
    Case(
        "a head with a scheduler",
        node(0, scheduler="slurm"),
        ("nodes", 0, "scheduler"),
        "slurm",
        "the schedulers whose services it runs",
        with_both,
    ),
    Case(
        "a worker of a scheduler that is not there",
        node(1, scheduler="slurm"),
        ("nodes", 1, "scheduler"),
        "slurm",
        "one of the cluster's schedulers: kubernetes",
    ),
    Case(
        "a scheduler twice",
        lambda wanted: wanted["scheduler"].append(SLURM),
        ("scheduler", 2, "kind"),
        "slurm",
        "each scheduler once",
        with_both,
    ),
    Case(
        "a worker of Slurm with pods",
        node(1, pods="fd00:2:0:200::/64"),
        ("nodes", 1, "pods"),
        "fd00:2:0:200::/64",
        "do not belong to Kubernetes",
        with_both,
    ),
    Case(
        "a scheduler of another kind",
        kube(kind="pbs"),
        ("scheduler", "kind"),
        "'pbs'",
        "'slurm' or 'kubernetes'",
    ),
    Case(
        "an unknown field",
        kube(api_prot=6443),
        ("scheduler", "api_prot"),
        "'api_prot'",
        "one of kind, version, pod_prefix",
    ),
    Case("no schedulers", lambda wanted: wanted.update(scheduler=[]), HERE, "an empty list", "one"),
    Case(
        "GPUs without a toolkit",
        lambda wanted: wanted["software"]["nvidia"].pop("container_toolkit"),
        (*HERE, "gpus", "deploy"),
        "operator",
        "software.nvidia with container_toolkit",
    ),
    Case(
        "a chart without a version",
        kube(gpus={"chart_version": "26"}),
        (*HERE, "gpus", "chart_version"),
        "'26'",
        "one version, such as v26.7.0",
    ),
    Case(
        "charts from a folder",
        kube(gpus={"chart_repository": "/srv/charts"}),
        (*HERE, "gpus", "chart_repository"),
        "'/srv/charts'",
        "a repository of Helm charts",
    ),
    Case(
        "HTTP without TLS",
        kube(gpus={"plain_http": True}),
        (*HERE, "gpus", "plain_http"),
        "True",
        "oci://",
    ),
    Case(
        "a chart that nobody installs",
        kube(gpus={"deploy": "none", "chart_version": "v26.7.0"}),
        (*HERE, "gpus", "chart_version"),
        "v26.7.0",
        "installs no chart",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused(case: Case) -> None:
    found = problems(case.change, case.make)
    assert [
        one
        for one in found
        if (one.path, one.value) == (case.path, case.value) and case.allowed in one.allowed
    ], found


def test_the_examples_are_valid() -> None:
    assert problems(lambda wanted: None) == []
    assert problems(project_repository("1.34")) == []
    assert problems(lambda wanted: None, with_both) == []
