"""Changes behind Lockstep's back in a cluster with Kubernetes, on nodes and in the API.

The check names each with its node or object, and one run of the deploy repairs them. Those that no
software repairs are undone by a person's command, which the finding names.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab.kubectl import wait_for_alert
from tests.lab.labs import Lab, deployed_lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = "test-kubernetes-drifts"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
ON_SYSTEM = f"{KUBECTL} -n kube-system"
DROP_IN = "/etc/kubernetes/kubelet.conf.d/50-lockstep.conf"
CNI = "/etc/cni/net.d/10-lockstep.conflist"
ROUTES = "/etc/lockstep/pod-routes"
API_SERVER = "/etc/kubernetes/lockstep-apiserver"
MANIFESTS = "/etc/kubernetes/manifests"
CLASS = "lockstep/hardware-class"
REPORTED_S = 45
ANNOTATED = f"{KUBECTL} -n vision %s resourcequota lockstep"
MINE = (
    f"{KUBECTL} -n vision delete configmap mine --ignore-not-found && "
    f"{KUBECTL} -n vision create configmap mine --from-literal=of=kept && "
    f"{ANNOTATED % 'annotate'} mine=kept"
)
"""What others have beside the managed objects, and on one of them."""
STILL_MINE = (
    f"{KUBECTL} -n vision get configmap mine -o jsonpath='{{.data.of}} ' && "
    f"{ANNOTATED % 'get'} -o jsonpath='{{.metadata.annotations.mine}}'"
)


@dataclass(frozen=True)
class Drift:
    """One change, and the one finding that names it."""

    id: str
    at: str
    """The node on whose console the script runs."""
    script: str
    rule: str
    node: str
    device: str = ""
    undo: str = ""
    """What a person does, where a deploy must not: somebody may have meant it."""

    @property
    def named(self) -> tuple[str, str, str]:
        """(rule, node, device) of the finding."""
        return self.rule, self.node, self.device


DRIFTS = (
    Drift("kubelet's settings edited", "worker1", f"sed -i s/110/250/ {DROP_IN}", "file.content",
          "worker1", DROP_IN),
    Drift("kubelet's arguments edited", "worker2", "echo '# mine' >>/etc/default/kubelet",
          "file.content", "worker2", "/etc/default/kubelet"),
    Drift("pods' network edited", "worker1", f"sed -i 's/\"mtu\": [0-9]*/\"mtu\": 1400/' {CNI}",
          "file.content", "worker1", CNI),
    Drift("containerd's settings edited", "worker1",
          "echo '# mine' >>/etc/containerd/lockstep-cri.toml", "file.content", "worker1",
          "/etc/containerd/lockstep-cri.toml"),
    Drift("list of routes cut", "worker2", f"sed -i '$d' {ROUTES}", "file.content", "worker2",
          ROUTES),
    Drift("pods' servers for names changed", "worker1",
          "sed -i 's/^nameserver .*/nameserver fd00::9/' /etc/kubernetes/lockstep-resolv.conf",
          "file.content", "worker1", "/etc/kubernetes/lockstep-resolv.conf"),
    Drift("file of the registry removed", "worker2",
          "rm /etc/containerd/certs.d/_default/hosts.toml", "file.content", "worker2",
          "/etc/containerd/certs.d/_default/hosts.toml"),
    Drift("kubeadm's file open to all", "head", "chmod 644 /etc/kubernetes/lockstep-kubeadm.yaml",
          "file.mode", "head", "/etc/kubernetes/lockstep-kubeadm.yaml"),
    Drift("authority's key open to all", "head", "chmod 644 /etc/kubernetes/pki/ca.key",
          "file.mode", "head", "/etc/kubernetes/pki/ca.key"),
    Drift("running sysctl changed", "worker1", "sysctl -qw net.core.somaxconn=128",
          "sysctl.running", "worker1", "net.core.somaxconn"),
    Drift("kubelet not at boot", "worker2", "systemctl -q disable kubelet", "unit.enabled",
          "worker2", "kubelet.service"),
    Drift("packages not held", "head", "apt-mark unhold kubeadm >/dev/null", "package.held",
          "head", "kubeadm"),
    Drift("health's timer stopped", "worker1", "systemctl stop lockstep-node-health.timer",
          "unit.active", "worker1", "lockstep-node-health.timer"),
    Drift("GPU with less power, so that the node check cordoned the node", "worker1",
          "nvidia-smi -i 3 -pl 350 && systemctl start lockstep-node-health.service",
          "gpu.power_limit", "worker1", "gpu3"),
    Drift("label changed", "head", f"{KUBECTL} label --overwrite node worker1 {CLASS}=other",
          "kubernetes.labels", "worker1", CLASS),
    Drift("label removed", "head", f"{KUBECTL} label node worker2 {CLASS}-", "kubernetes.labels",
          "worker2", CLASS),
    Drift("CoreDNS edited, and without pods", "head",
          f"{ON_SYSTEM} label --overwrite deployment coredns k8s-app=mine && "
          f"{ON_SYSTEM} scale deployment coredns --replicas=0",
          "kubernetes.objects", "head", "Deployment kube-system/coredns"),
    Drift("Service of DNS edited", "head",
          f"{ON_SYSTEM} label --overwrite service kube-dns kubernetes.io/name=mine",
          "kubernetes.objects", "head", "Service kube-system/kube-dns"),
    Drift("CoreDNS' configuration removed", "head", f"{ON_SYSTEM} delete configmap coredns",
          "kubernetes.objects", "head", "ConfigMap kube-system/coredns"),
    Drift("account of kube-proxy removed", "head",
          f"{KUBECTL} delete clusterrolebinding kubeadm:node-proxier",
          "kubernetes.objects", "head", "ClusterRoleBinding kubeadm:node-proxier"),
    Drift("kube-proxy edited", "head",
          f"{ON_SYSTEM} label --overwrite daemonset kube-proxy k8s-app=mine",
          "kubernetes.objects", "head", "DaemonSet kube-system/kube-proxy"),
    Drift("object with Lockstep's label", "head",
          f"{KUBECTL} create configmap old && {KUBECTL} label configmap old "
          "app.kubernetes.io/managed-by=lockstep",
          "kubernetes.objects", "head", "ConfigMap default/old"),
    Drift("quota of the description edited", "head",
          f"{KUBECTL} -n vision patch resourcequota lockstep --type merge "
          """-p '{"spec":{"hard":{"pods":"500"}}}'""",
          "kubernetes.objects", "head", "ResourceQuota vision/lockstep"),
    Drift("rights of a user removed", "head",
          f"{KUBECTL} -n vision delete rolebinding ada-edit",
          "kubernetes.objects", "head", "RoleBinding vision/ada-edit"),
    Drift("level of Pod Security lowered", "head",
          f"{KUBECTL} label --overwrite namespace speech "
          "pod-security.kubernetes.io/enforce=privileged",
          "kubernetes.objects", "head", "Namespace speech"),
    Drift("no default storage class", "head",
          f"{KUBECTL} annotate --overwrite storageclass local-path "
          "storageclass.kubernetes.io/is-default-class=false",
          "kubernetes.objects", "head", "StorageClass local-path"),
    Drift("priority class removed", "head", f"{KUBECTL} delete priorityclass batch",
          "kubernetes.objects", "head", "PriorityClass batch"),
    Drift("device plugin edited", "head",
          f"{KUBECTL} -n gpu-operator set env daemonset/gpus-nvidia-device-plugin "
          "MIG_STRATEGY=single",
          "kubernetes.releases", "head",
          "gpu-operator/gpus DaemonSet gpu-operator/gpus-nvidia-device-plugin"),
    Drift("encryption of Secrets edited", "head", f"echo '# mine' >>{API_SERVER}/encryption.yaml",
          "file.content", "head", f"{API_SERVER}/encryption.yaml"),
    Drift("rules of the audit log edited", "head", f"echo '# mine' >>{API_SERVER}/audit.yaml",
          "file.content", "head", f"{API_SERVER}/audit.yaml"),
    Drift("arguments of a static pod edited", "head",
          "sed -i s/--leader-elect=true/--leader-elect=false/ "
          f"{MANIFESTS}/kube-controller-manager.yaml",
          "kubernetes.manifests", "head", "kube-controller-manager"),
    Drift("node cordoned", "head", f"{KUBECTL} cordon worker2", "kubernetes.node", "worker2",
          undo=f"{KUBECTL} uncordon worker2"),
    Drift("node with a taint", "head", f"{KUBECTL} taint node worker1 mine=1:PreferNoSchedule",
          "kubernetes.taints", "worker1", undo=f"{KUBECTL} taint node worker1 mine-"),
    Drift("copy of a static pod", "head",
          f"sed 's/name: kube-scheduler/name: copy/; s/hostNetwork: true//' "
          f"{MANIFESTS}/kube-scheduler.yaml >{MANIFESTS}/kube-scheduler.yaml.bak",
          "kubernetes.static_pods", "head", "kube-scheduler.yaml.bak",
          undo=f"rm {MANIFESTS}/kube-scheduler.yaml.bak"),
    Drift("static pod on a worker", "worker2",
          f"printf 'kind: Pod\\n  image: x:1\\n' >{MANIFESTS}/mine.yaml",
          "kubernetes.static_pods", "worker2", "mine", undo=f"rm {MANIFESTS}/mine.yaml"),
)  # fmt: skip


@pytest.fixture(scope="module")
def pods() -> Iterator[Lab]:
    """A deployed cluster with Kubernetes; a developer's own lab stays as it is."""
    with deployed_lab(NAME, "--kubernetes", "1.34", "--workers", "2") as lab:
        # The device plugin is a pod, which starts once the workers have joined.
        offers = f"{KUBECTL} wait --timeout=180s node worker1 worker2"
        lab.on("head", rf"{offers} --for=jsonpath='{{.status.allocatable.nvidia\.com/gpu}}'=8")
        yield lab


def test_each_drift_is_named_and_one_deploy_repairs_them(pods: Lab) -> None:
    assert pods.check().named == set()
    pods.on("head", MINE)
    for drift in DRIFTS:
        pods.on(drift.at, drift.script)
    checked = pods.check()
    expected = {drift.named for drift in DRIFTS}
    assert checked.named == expected, checked.text
    deployed = pods.deploy()
    assert deployed.status == 0, deployed.errors
    left = {drift.named for drift in DRIFTS if drift.undo}
    assert pods.check().named == left
    for drift in DRIFTS:
        if drift.undo:
            pods.on(drift.at, drift.undo)
    # The deploy started the kubelet of worker2, and does not wait for GPUs of a cordoned node.
    names_after_a_start_of_the_kubelet(pods, set())
    assert pods.deploy().changed == []
    assert pods.on("head", STILL_MINE).split() == ["kept", "kept"]


def names_after_a_start_of_the_kubelet(pods: Lab, expected: set[tuple[str, str, str]]) -> None:
    """Wait until the check names the expected findings alone.

    A kubelet that has just started knows no GPUs, and tells its numbers every ten seconds.
    """
    deadline = time.monotonic() + REPORTED_S
    while (checked := pods.check_once_read()).named != expected:
        assert time.monotonic() < deadline, checked.text
        time.sleep(5)


def test_a_lost_route_is_made_again(pods: Lab) -> None:
    pods.on("worker1", "ip -6 route flush proto 76")
    found = pods.check().findings
    assert {(one["rule"], one.get("node")) for one in found} == {("kubernetes.routes", "worker1")}
    assert pods.deploy().status == 0
    assert pods.check().named == set()


def test_a_stopped_kubelet_is_one_finding_and_an_alert(pods: Lab) -> None:
    pods.on("worker1", "systemctl stop kubelet")
    assert pods.check().named == {("unit.active", "worker1", "kubelet.service")}
    wait_for_alert(pods, "KubeletDown", "worker1")
    assert pods.deploy().status == 0
    names_after_a_start_of_the_kubelet(pods, set())


def test_a_running_kubelet_with_other_settings_is_named(pods: Lab) -> None:
    later = "/etc/kubernetes/kubelet.conf.d/99-mine.conf"
    head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration"
    pods.on("worker1", f"printf '{head}\nmaxPods: 9\n' >{later}; systemctl restart kubelet")
    try:
        pods.on("head", f"{KUBECTL} wait --for=condition=Ready node/worker1 --timeout=60s")
        named = ("kubernetes.kubelet_config", "worker1", "maxPods")
        names_after_a_start_of_the_kubelet(pods, {named})
    finally:
        pods.on("worker1", f"rm {later}; systemctl restart kubelet")
    pods.on("head", f"{KUBECTL} wait --for=condition=Ready node/worker1 --timeout=60s")
    names_after_a_start_of_the_kubelet(pods, set())


def test_the_object_of_a_node_that_left_is_named(pods: Lab) -> None:
    node = '{"kind":"Node","apiVersion":"v1","metadata":{"name":"worker9"}}'
    pods.on("head", f"echo '{node}' | {KUBECTL} create -f -")
    try:
        checked = pods.check()
        assert checked.named == {("kubernetes.unknown_node", "head", "worker9")}
        (repair,) = {one["repair"] for one in checked.findings}
    finally:
        pods.on("head", f"{KUBECTL} delete node worker9")
    assert "delete node worker9" in repair
    assert pods.check().named == set()


def test_a_lost_gpu_takes_the_node_out_of_service(pods: Lab) -> None:
    pods.lab("gpu", "worker1", "--gpu", "3", "--remove")
    try:
        pods.node_check("worker1")
        shown = pods.on("head", f"{KUBECTL} get node worker1 -o yaml")
        assert "unschedulable: true" in shown
        assert "lockstep: gpu.count: found 7 GPUs, expected 8 GPUs" in shown
        # What Kubernetes lacks and the cordon are parts of the cause.
        assert pods.check().named == {("gpu.count", "worker1", "")}
    finally:
        pods.lab("gpu", "worker1", "--gpu", "3", "--restore")
    pods.node_check("worker1")
    shown = pods.on("head", f"{KUBECTL} get node worker1 -o yaml")
    assert "unschedulable" not in shown
    assert "the node check found no failure" in shown
    assert pods.check().named == set()
