"""Pods on machines with kernels of their own: exclusive CPUs, huge pages, limits, and one job."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.kubectl import BUSYBOX, pod
from tests.lab.labs import Lab, deployed_lab

pytestmark = [pytest.mark.lab, pytest.mark.kernel]

NAME = "test-kernel-pods"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
MIB = 1 << 20
POD_S = 300
"""Emulated machines are slow."""
CPUS, PAGES_OF_2M, PAGES_OF_1G = (1, 3), 128, 1
"""As inventories/lab.py describes the workers: CPUs for jobs, and huge pages."""
GUARANTEED = {"cpu": "1", "memory": "64Mi", "hugepages-2Mi": "32Mi"}
ON_WORKER1 = {"nodeSelector": {"kubernetes.io/hostname": "worker1"}}
PAGES: dict[str, Any] = {"volumes": [{"name": "pages", "emptyDir": {"medium": "HugePages-2Mi"}}]}
MOUNTED = {"volumeMounts": [{"name": "pages", "mountPath": "/pages"}]}
OWN_CPUS = "sed -n s/^Cpus_allowed_list:.//p /proc/1/status"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One head and two workers, deployed and rebooted."""
    up = ("--kernel", "own", "--workers", "2", "--kubernetes", "1.34")
    deploys = ("deploys/cluster.py", "deploys/reboot.py")
    with deployed_lab(NAME, *up, deploys=deploys, variable="LOCKSTEP_TEST_KERNEL_LAB") as made:
        yield made


def kubectl(lab: Lab, words: str, stdin: str | None = None) -> str:
    return lab.lab("run", "head", "--", "sh", "-c", f"{KUBECTL} {words}", stdin=stdin).stdout


def start(lab: Lab, name: str, command: str, limits: dict[str, str], **more: Any) -> None:
    """Start a pod on worker1, whose requests equal its limits."""
    container = {"resources": {"limits": limits}, **more.pop("container", {})}
    shell = [BUSYBOX, "sh", "-c", command]
    made = pod(name, shell, container=container, restartPolicy="Never", **ON_WORKER1, **more)
    kubectl(lab, f"delete pod {name} --ignore-not-found")
    kubectl(lab, "apply -f -", json.dumps(made))


def phase(lab: Lab, name: str, wanted: str) -> None:
    kubectl(lab, f"wait pod/{name} --for=jsonpath='{{.status.phase}}'={wanted} --timeout={POD_S}s")


def shown(lab: Lab, name: str, command: str) -> str:
    return kubectl(lab, f"exec {name} -- {BUSYBOX} sh -c '{command}'").strip()


def cpus(listed: str) -> set[int]:
    """Return the CPUs of a list such as 0-1,3."""
    spans = (part.partition("-") for part in listed.split(","))
    return {one for low, _, high in spans for one in range(int(low), int(high or low) + 1)}


def test_the_kubelet_offers_what_the_plan_leaves_to_pods(lab: Lab) -> None:
    node = json.loads(kubectl(lab, "get node worker1 -o json"))["status"]["allocatable"]
    assert int(node["cpu"]) == len(CPUS)
    assert node["hugepages-2Mi"] == f"{PAGES_OF_2M * 2}Mi"
    assert node["hugepages-1Gi"] == f"{PAGES_OF_1G}Gi"
    total_kib = int(lab.on("worker1", "awk '/MemTotal/ {print $2}' /proc/meminfo"))
    huge_kib = (PAGES_OF_2M * 2 + PAGES_OF_1G * 1024) * 1024
    assert int(node["memory"].removesuffix("Ki")) == total_kib - huge_kib - 512 * 1024


def test_pods_have_cpus_of_their_own_and_another_one_waits(lab: Lab) -> None:
    for name in ("one", "two"):
        start(lab, name, "sleep 3600", GUARANTEED)
        phase(lab, name, "Running")
    allowed = [cpus(shown(lab, name, OWN_CPUS)) for name in ("one", "two")]
    assert sorted(allowed, key=min) == [{one} for one in CPUS]
    # A pod without CPUs of its own is left the rest: the CPUs of the system's programs.
    start(lab, "shared", "sleep 3600", {"memory": "16Mi"})
    phase(lab, "shared", "Running")
    assert cpus(shown(lab, "shared", OWN_CPUS)) == {0, 2}
    start(lab, "third", "sleep 3600", GUARANTEED)
    until = time.monotonic() + POD_S
    while "Insufficient cpu" not in kubectl(lab, "get pod third -o yaml"):
        assert time.monotonic() < until
        time.sleep(5)
    kubectl(lab, "delete pod one two shared third")


def test_a_pod_whose_cpus_are_on_two_numa_nodes_is_refused(lab: Lab) -> None:
    """Each node has one CPU for jobs, and one NUMA node has two (topologyManagerPolicy)."""
    start(lab, "both", "sleep 3600", {**GUARANTEED, "cpu": "2"})
    phase(lab, "both", "Failed")
    assert "TopologyAffinityError" in kubectl(lab, "get pod both -o yaml")
    kubectl(lab, "delete pod both")


def test_huge_pages_end_at_the_limit(lab: Lab) -> None:
    start(lab, "pages", "sleep 3600", GUARANTEED, container=MOUNTED, **PAGES)
    phase(lab, "pages", "Running")
    # containerd leaves the limit to the pod's group, which no container sees (its setting
    # disable_hugetlb_controller).
    uid = kubectl(lab, "get pod pages -o jsonpath={.metadata.uid}").strip().replace("-", "_")
    limit = lab.on("worker1", f"cat /sys/fs/cgroup/kubepods.slice/*pod{uid}.slice/hugetlb.2MB.max")
    assert int(limit) == 32 * MIB
    before = int(lab.on("worker1", "awk '/HugePages_Free/ {print $2}' /proc/meminfo"))
    assert shown(lab, "pages", f"{BUSYBOX} fallocate -l {32 * MIB} /pages/a && echo has them") == (
        "has them"
    )
    after = int(lab.on("worker1", "awk '/HugePages_Free/ {print $2}' /proc/meminfo"))
    assert before - after == 16
    refused = shown(lab, "pages", f"{BUSYBOX} fallocate -l {2 * MIB} /pages/b 2>&1 || echo refused")
    assert refused.endswith("refused")
    kubectl(lab, "delete pod pages")


def test_a_pod_that_takes_more_memory_than_its_limit_is_killed(lab: Lab) -> None:
    start(lab, "greedy", f"{BUSYBOX} tail /dev/zero", {"cpu": "1", "memory": "32Mi"})
    phase(lab, "greedy", "Failed")
    assert "OOMKilled" in kubectl(lab, "get pod greedy -o yaml")
    kubectl(lab, "delete pod greedy")


def test_a_pod_with_a_share_of_a_cpu_gets_no_more(lab: Lab) -> None:
    start(lab, "share", "sleep 3600", {"cpu": "500m", "memory": "16Mi"})
    phase(lab, "share", "Running")
    assert shown(lab, "share", "cat /sys/fs/cgroup/cpu.max") == "50000 100000"
    kubectl(lab, "delete pod share")


def test_a_job_on_two_nodes_has_huge_pages_and_cpus_of_its_own(lab: Lab) -> None:
    """Each process waits for the other one, by its name, before it ends."""
    port = 7000
    other = "two-nodes-$((1 - JOB_COMPLETION_INDEX)).two-nodes"
    steps = (
        f"{BUSYBOX} fallocate -l {32 * MIB} /pages/a",
        OWN_CPUS.replace("sed", f"{BUSYBOX} sed"),
        f"{BUSYBOX} httpd -p {port} -h /proc",
        f"until {BUSYBOX} wget -q -O /dev/null http://{other}:{port}/version; do "
        f"{BUSYBOX} sleep 1; done",
        f"{BUSYBOX} sleep 10",
    )
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "two-nodes"}},
    }
    made = pod(
        "two-nodes",
        [BUSYBOX, "sh", "-c", " && ".join(steps)],
        container={**MOUNTED, "resources": {"limits": GUARANTEED}},
        restartPolicy="Never",
        subdomain="two-nodes",
        topologySpreadConstraints=[spread],
        **PAGES,
    )
    names = {"name": "two-nodes"}
    job = {
        "completions": 2,
        "parallelism": 2,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"metadata": {"labels": {"app": "two-nodes"}}, "spec": made["spec"]},
    }
    service = {"clusterIP": "None", "selector": {"app": "two-nodes"}, "ports": [{"port": port}]}
    objects = [
        {"apiVersion": "v1", "kind": "Service", "metadata": names, "spec": service},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": names, "spec": job},
    ]
    kubectl(lab, "apply -f -", json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    kubectl(lab, f"wait --for=condition=Complete job two-nodes --timeout={POD_S}s")
    found = json.loads(kubectl(lab, "get pods -l app=two-nodes -o json"))["items"]
    assert {one["spec"]["nodeName"] for one in found} == {"worker1", "worker2"}
    for one in found:
        # wget says in later lines that the other process is not there yet.
        first, *_ = kubectl(lab, f"logs {one['metadata']['name']}").splitlines()
        (own,) = cpus(first)
        assert own in CPUS
    kubectl(lab, "delete job,service two-nodes")


def test_nothing_differs_and_nothing_is_to_do(lab: Lab) -> None:
    checked = lab.check_once_read()
    assert (checked.status, checked.named) == (0, set()), checked.text
    again = lab.deploy()
    assert (again.status, again.changed) == (0, []), again.errors
