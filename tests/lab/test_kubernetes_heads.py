"""Three heads: one is lost, all lose etcd's data, one loses its disk, all have old certificates.

The tests are steps in the life of one cluster, in the order of this file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.labs import INVENTORY, Deployed, Lab, deployed_lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = "test-kubernetes-heads"
HEADS = ("head", "head2", "head3")
NODES = (*HEADS, "worker1")
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout=2s"
MANIFESTS = "/etc/kubernetes/manifests"
CRICTL = "crictl --config /dev/null --runtime-endpoint unix:///run/containerd/containerd.sock"
ETCD = f"{CRICTL} ps --state Running --name '^etcd$' --quiet"
PKI = "/etc/kubernetes/pki"
ETCDCTL = (
    f"{CRICTL} exec $({ETCD}) etcdctl --endpoints=https://localhost:2379 "
    f"--cacert={PKI}/etcd/ca.crt --cert={PKI}/etcd/healthcheck-client.crt "
    f"--key={PKI}/etcd/healthcheck-client.key"
)
MOVED_WITHIN_S = 30
"""docs/kubernetes.md: the address moves after 4 to 6 s; etcd may have to elect a leader, too."""
BACK_WITHIN_S = 120
"""From power to a kubelet that is Ready."""
DEPLOYED_WITHIN_S = 420
"""The limit of an operation of kubeadm; here, a whole deploy is within it."""
SNAPSHOTS = "/var/lib/lockstep/etcd-snapshots"
SPACE = "kept"
KUBEADM = "/etc/kubernetes/lockstep-kubeadm.yaml"
OLD_KUBEADM = "/run/lockstep/old-kubeadm.yaml"


def status(lab: Lab) -> Any:
    # Its exit status is 1 while a machine is off.
    return json.loads(lab.lab("status", "--json", check=False).stdout)


class Heads:
    """A lab with three heads of Kubernetes."""

    def __init__(self, lab: Lab, address: str = "", inventory: str = INVENTORY) -> None:
        """Take the virtual address of the inventory; "": the one of inventories/lab.py."""
        self.lab, self.inventory = lab, inventory
        self.address = address or status(lab)["prefix"].replace("::/64", "::f")

    def holder(self, among: tuple[str, ...] = HEADS) -> str:
        """Return the head that has the virtual address, after waiting until it is one alone.

        The heads are asked one after the other, and the address may move meanwhile.
        """
        has = f"ip -oneline address show to {self.address} | grep -c . || test $? = 1"
        began = time.monotonic()
        while True:
            found = [name for name in among if self.lab.on(name, has).strip() == "1"]
            if len(found) == 1:
                return found[0]
            assert time.monotonic() - began < MOVED_WITHIN_S, found

    def kubectl(self, words: str, at: str = "head", check: bool = True) -> str:
        """Run kubectl on a head: admin.conf names the virtual address."""
        return self.lab.on(at, f"{KUBECTL} {words}", check=check)

    def get(self, words: str, at: str = "head") -> Any:
        return json.loads(self.kubectl(f"get {words} -o json", at))

    def answers(self, at: str, began: float, within_s: float) -> float:
        """Wait until the API answers with data of etcd; return the seconds since ``began``."""
        loop = f"for i in $(seq 200); do {KUBECTL} get nodes >/dev/null && exit 0; sleep 0.2; done"
        self.lab.on(at, f"({loop}; exit 1) 2>/dev/null")
        took = time.monotonic() - began
        assert took < within_s
        return took

    def ready(self, *nodes: str, at: str = "head") -> None:
        for node in nodes:
            self.kubectl(
                f"wait node {node} --for=condition=Ready --timeout={BACK_WITHIN_S}s "
                f"--request-timeout={BACK_WITHIN_S + 10}s",
                at,
            )

    def members(self, at: str = "head") -> list[str]:
        """Return the members of etcd, after each of them has answered."""
        self.lab.on(
            at,
            f"for i in $(seq 60); do {ETCDCTL} endpoint health --cluster && exit 0; sleep 1; done "
            ">/dev/null 2>&1; exit 1",
        )
        listed = json.loads(self.lab.on(at, f"{ETCDCTL} member list --write-out=json"))
        return sorted(member["name"] for member in listed["members"])

    def deploy(self, deploy: str = "deploys/cluster.py", *options: str) -> Deployed:
        """Deploy without an error, within the limit."""
        began = time.monotonic()
        done = self.lab.deploy(deploy, *options, inventory=self.inventory)
        assert done.status == 0, done.errors
        assert time.monotonic() - began < DEPLOYED_WITHIN_S
        return done

    def is_settled(self) -> None:
        """Hold that nothing is left to do, and that no node differs."""
        assert self.deploy().changed == []
        checked = self.lab.check_once_read(inventory=self.inventory)
        assert (checked.status, checked.named) == (0, set()), checked.text

    def lose_the_holder(self) -> str:
        """Power off the head with the virtual address, which moves; return the head's name."""
        lost = self.holder()
        others = tuple(name for name in HEADS if name != lost)
        began = time.monotonic()
        self.lab.lab("power-off", lost)
        self.answers(others[0], began, MOVED_WITHIN_S)
        self.holder(others)
        return lost


@pytest.fixture(scope="module")
def heads() -> Iterator[Heads]:
    up = ("--heads", "3", "--workers", "1", "--kubernetes", "1.34")
    with deployed_lab(NAME, *up) as lab:
        yield Heads(lab)


def test_a_second_deploy_changes_nothing(heads: Heads) -> None:
    heads.is_settled()
    heads.ready(*NODES)
    assert heads.members() == list(HEADS)


def test_names_are_found_without_any_one_head(heads: Heads) -> None:
    heads.kubectl(
        "rollout status deployment coredns -n kube-system --timeout=60s --request-timeout=70s"
    )
    pods = heads.get("pods -n kube-system -l k8s-app=kube-dns")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2


def test_the_address_leaves_a_head_that_lost_its_power(heads: Heads) -> None:
    lost = heads.lose_the_holder()
    others = tuple(name for name in HEADS if name != lost)
    # Objects can be changed with two of three members of etcd.
    heads.kubectl("create configmap with-two-heads -n default", others[0])
    now = heads.holder(others)
    heads.lab.lab("power-on", lost)
    heads.ready(lost, at=others[0])
    assert heads.holder() == now, "the address stays where it is"
    assert heads.members(others[0]) == list(HEADS)
    heads.kubectl("delete configmap with-two-heads -n default", lost)
    heads.deploy()
    heads.is_settled()


def test_the_address_leaves_a_head_whose_api_server_stopped(heads: Heads) -> None:
    was = heads.holder()
    others = tuple(name for name in HEADS if name != was)
    began = time.monotonic()
    heads.lab.on(was, f"rm {MANIFESTS}/kube-apiserver.yaml")
    while heads.holder() == was:
        assert time.monotonic() - began < MOVED_WITHIN_S
    heads.answers(others[0], began, MOVED_WITHIN_S)
    found = heads.lab.check()
    assert ("kubernetes.static_pods", was, "kube-apiserver") in found.named, found.text
    heads.deploy()
    assert heads.holder() != was
    heads.is_settled()


def test_a_head_whose_etcd_hangs_is_named_and_no_other_head_is_rebooted(heads: Heads) -> None:
    hung, other = (name for name in HEADS if name != heads.holder())
    # The kubelet starts it anew after 80 s (kubeadm: the liveness probe's failureThreshold).
    heads.lab.on(hung, "pkill -STOP -x etcd")
    try:
        found = heads.lab.check()
        heads.lab.on(other, "touch /run/reboot-required")
        rebooted = heads.lab.deploy("deploys/reboot.py", "--limit", other)
    finally:
        heads.lab.on(hung, "pkill -CONT -x etcd")
        heads.lab.on(other, "rm -f /run/reboot-required")
    assert ("kubernetes.control_plane", hung, "") in found.named, found.text
    assert rebooted.status == 1
    assert f"{other} was not rebooted, because the API server of {hung} is" in rebooted.errors
    heads.ready(*NODES)
    heads.members(other)
    heads.is_settled()


def test_certificates_that_end_soon_are_renewed_by_one_deploy(heads: Heads) -> None:
    for name in HEADS:
        heads.lab.on(
            name,
            f"sed 's/^certificateValidityPeriod: .*/certificateValidityPeriod: 24h0m0s/' {KUBEADM} "
            f">{OLD_KUBEADM}; kubeadm certs renew all --config {OLD_KUBEADM} >/dev/null; "
            f"rm {OLD_KUBEADM}",
        )
    heads.lab.on("head2", f"rm {PKI}/etcd/healthcheck-client.crt")
    found = heads.lab.check().named
    for name in HEADS:
        assert ("kubernetes.certificates", name, f"{PKI}/apiserver.crt") in found
        assert ("kubernetes.certificates", name, "/etc/kubernetes/admin.conf") in found
    renewed = heads.deploy()
    assert [line for line in renewed.changed if "Certificates" not in line] == []
    for name in HEADS:
        heads.lab.on(
            name,
            f"echo | openssl s_client -connect [::1]:6443 2>/dev/null | openssl x509 -noout "
            f"-checkend {364 * 86400}",
        )
    heads.ready(*NODES)
    assert heads.members("head2") == list(HEADS)
    heads.is_settled()


def everything(heads: Heads) -> set[str]:
    """Kind, namespace and name of each object that lasts; a token ends after minutes."""
    kinds = (
        "namespaces,nodes,configmaps,secrets,services,serviceaccounts,deployments,daemonsets,"
        "resourcequotas,limitranges,roles,rolebindings,clusterroles,clusterrolebindings,"
        "storageclasses,priorityclasses,customresourcedefinitions,runtimeclasses"
    )
    columns = "K:.kind,S:.metadata.namespace,N:.metadata.name"
    words = f"get {kinds} -A --no-headers -o custom-columns={columns}"
    return {line for line in heads.kubectl(words).splitlines() if "bootstrap-token" not in line}


def test_etcd_lost_on_all_heads_is_restored_with_all_objects(heads: Heads) -> None:
    deployment = (
        f"create deployment web -n {SPACE} --image docker.io/library/busybox:1.37 -- "
        "/bin/busybox sleep 36000"
    )
    for words in (
        f"delete namespace {SPACE} --ignore-not-found --request-timeout=60s",
        f"create namespace {SPACE}",
        f"create configmap settings -n {SPACE} --from-literal=key=value",
        f"create secret generic password -n {SPACE} --from-literal=key=hidden",
        deployment,
    ):
        heads.kubectl(words)
    available = f"wait deployment web -n {SPACE} --for=condition=Available --timeout=60s"
    heads.kubectl(f"{available} --request-timeout=70s")
    pods = f"pods -n {SPACE} -l app=web"
    (pod,) = [one["metadata"]["name"] for one in heads.get(pods)["items"]]
    snapshot = heads.lab.on(
        "head",
        f"systemctl start lockstep-etcd-snapshot && ls -d {SNAPSHOTS}/* | tail -n 1",
    ).strip()
    before = everything(heads)
    heads.kubectl(f"create configmap later -n {SPACE}")
    for name in HEADS:
        heads.lab.on(name, f"rm -rf /var/lib/etcd/member && {CRICTL} stop $({ETCD})")

    heads.deploy("deploys/restore_etcd.py", "--data", f"snapshot={snapshot}")
    heads.deploy()
    heads.is_settled()
    assert heads.members() == list(HEADS)
    heads.ready(*NODES)
    assert before - everything(heads) == set()
    assert heads.get(f"configmap settings -n {SPACE}")["data"] == {"key": "value"}
    assert heads.get(f"secret password -n {SPACE}")["data"] == {"key": "aGlkZGVu"}
    heads.kubectl(f"{available} --request-timeout=70s")
    assert [one["metadata"]["name"] for one in heads.get(pods)["items"]] == [pod], "it ran on"
    assert heads.kubectl(f"get configmap later -n {SPACE} --ignore-not-found") == ""


def test_the_first_head_without_its_disk_joins_the_others(heads: Heads) -> None:
    heads.lab.lab("power-off", "head")
    with_new_disk(heads.lab, "head")
    heads.deploy()
    assert heads.members() == list(HEADS)
    heads.ready(*NODES)
    assert heads.get(f"configmap settings -n {SPACE}")["data"] == {"key": "value"}
    heads.is_settled()


def with_new_disk(lab: Lab, node: str) -> None:
    """Have a machine that is off as it was installed.

    ``up`` makes the machine anew whose making was interrupted.
    """
    state = Path(status(lab)["ssh_config"]).parent / "state.json"
    known = json.loads(state.read_text(encoding="utf-8"))
    (of_node,) = [one for one in known["nodes"] if one["name"] == node]
    of_node["made"] = False
    state.write_text(json.dumps(known), encoding="utf-8")
    lab.lab("up")
