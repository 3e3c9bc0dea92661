"""An upgrade of Kubernetes from 1.33 to 1.34, while a job runs on two of three workers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.labs import INVENTORY, ROOT, Lab, deployed_lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = "test-kubernetes-upgrade"
OLDER = "tests/lab/kubernetes_1_33_inventory.py"
SKIPPED = "tests/lab/kubernetes_skipped_inventory.py"
UPGRADE = "deploys/upgrade.py"
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"
NODES = ("head", "worker1", "worker2", "worker3")
WITH_JOB = {"worker2", "worker3"}
WITHIN_S = 600.0
LABELS = {"app": "pair"}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "pair"},
    "spec": {
        "completions": 2,
        "parallelism": 2,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "nodeSelector": {"pair": "yes"},
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": LABELS},
                    }
                ],
                "containers": [
                    {
                        "name": "main",
                        "image": "docker.io/library/busybox:1.37",
                        "command": ["/bin/busybox", "sh", "-c"],
                        "args": ["until test -e /done; do sleep 1; done"],
                    }
                ],
            },
        },
    },
}
# A job has no scale, so its budget is a number of pods that stay (Kubernetes, Specifying a
# Disruption Budget for your Application).
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "pair"},
    "spec": {"minAvailable": 2, "selector": {"matchLabels": LABELS}},
}

FIRST = "worker1"
"""The worker that is upgraded first; the job is on the others."""
SERVER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "server"},
    "spec": {
        "selector": {"matchLabels": {"app": "server"}},
        "template": {
            "metadata": {"labels": {"app": "server"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 100,
                                "preference": {
                                    "matchExpressions": [
                                        {
                                            "key": "kubernetes.io/hostname",
                                            "operator": "In",
                                            "values": [FIRST],
                                        }
                                    ]
                                },
                            }
                        ]
                    }
                },
                "containers": [
                    {
                        "name": "main",
                        "image": "docker.io/library/busybox:1.37",
                        "command": ["/bin/busybox", "sleep", "36000"],
                    }
                ],
            },
        },
    },
}
"""It prefers the first worker, and runs elsewhere while that one is drained."""


@pytest.fixture(scope="module")
def older() -> Iterator[Lab]:
    """One head and three workers with Kubernetes 1.33; a developer's own lab stays as it is."""
    up = ("--kubernetes", "1.33,1.34", "--workers", "3")
    with deployed_lab(NAME, *up, inventory=OLDER) as lab:
        yield lab


def kubectl(lab: Lab, words: str, stdin: str | None = None) -> str:
    return lab.lab("run", "head", "--", "sh", "-c", f"{KUBECTL} {words}", stdin=stdin).stdout


def versions(lab: Lab) -> dict[str, str]:
    """Return the version of each node's kubelet; empty while the API server is restarted."""
    form = r"{range .items[*]}{.metadata.name} {.status.nodeInfo.kubeletVersion}{\"\n\"}{end}"
    command = f'{KUBECTL} --request-timeout=5s get nodes -o jsonpath="{form}"'
    said = lab.on("head", command, check=False)
    return dict(line.split() for line in said.splitlines() if line.count(" ") == 1)


def pods_of(lab: Lab, app: str) -> list[dict[str, Any]]:
    listed = json.loads(kubectl(lab, f"get pods -l app={app} -o json"))["items"]
    return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]


def runs_until(
    lab: Lab, running: subprocess.Popen[str], log: Path, seen: list[str], last: str
) -> None:
    """Note the nodes in the order in which they have 1.34, until a node has it."""
    deadline = time.monotonic() + WITHIN_S
    while last not in seen:
        seen += [
            node
            for node, version in versions(lab).items()
            if version.startswith("v1.34.") and node not in seen
        ]
        assert time.monotonic() < deadline, log.read_text()
        assert running.poll() is None or last in seen, log.read_text()
        time.sleep(1)


def test_a_skipped_release_is_refused(older: Lab) -> None:
    refused = older.deploy(UPGRADE, inventory=SKIPPED)
    assert refused.status != 0
    assert "skips a minor release" in refused.errors
    assert "set scheduler.version to a version of 1.34" in refused.errors
    assert {version.rpartition(".")[0] for version in versions(older).values()} == {"v1.33"}


def test_another_deploy_refuses_a_node_with_another_version(older: Lab) -> None:
    refused = older.deploy()
    assert refused.status != 0
    assert "deploys/upgrade.py" in refused.errors
    assert {version.rpartition(".")[0] for version in versions(older).values()} == {"v1.33"}


def test_nodes_are_upgraded_one_by_one_after_their_jobs(older: Lab, tmp_path: Path) -> None:
    kubectl(older, f"label --overwrite nodes {' '.join(sorted(WITH_JOB))} pair=yes")
    objects = {"apiVersion": "v1", "kind": "List", "items": [BUDGET, JOB, SERVER]}
    kubectl(older, "apply -f -", json.dumps(objects))
    kubectl(older, "wait --for=jsonpath='{.status.ready}'=2 job/pair --timeout=90s")
    kubectl(older, "rollout status deployment server --timeout=60s")
    (server,) = pods_of(older, "server")
    assert server["spec"]["nodeName"] == FIRST
    before = pods_of(older, "pair")
    assert {pod["spec"]["nodeName"] for pod in before} == WITH_JOB
    seen: list[str] = []
    log = tmp_path / "upgrade"
    with log.open("w") as output:
        running = subprocess.Popen(
            [str(ROOT / ".venv/bin/pyinfra"), "-y", INVENTORY, UPGRADE],
            cwd=older.tree,
            env=older.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    with running:
        try:
            runs_until(older, running, log, seen, FIRST)
            # At once: it may be evicted again, and go back, when its next node is drained.
            (evicted,) = pods_of(older, "server")
            assert evicted["metadata"]["uid"] != server["metadata"]["uid"]
            assert evicted["spec"]["nodeName"] in WITH_JOB, "the drained node had it"
            until = time.monotonic() + 60
            while "unschedulable" not in kubectl(older, "get node worker2 -o yaml"):
                assert time.monotonic() < until, log.read_text()
                time.sleep(1)
            time.sleep(10)
            assert seen == ["head", FIRST]
            during = pods_of(older, "pair")
            assert [pod["metadata"]["uid"] for pod in during] == [
                pod["metadata"]["uid"] for pod in before
            ]
            assert all(pod["status"]["phase"] == "Running" for pod in during)
            assert "unschedulable" not in kubectl(older, "get node worker3 -o yaml")
            for pod in during:
                kubectl(older, f"exec {pod['metadata']['name']} -- /bin/busybox touch /done")
            runs_until(older, running, log, seen, "worker3")
            assert running.wait(WITHIN_S) == 0, log.read_text()
        finally:
            running.terminate()
    assert seen == list(NODES)
    job = json.loads(kubectl(older, "get job pair -o json"))["status"]
    assert (job["succeeded"], job.get("failed", 0)) == (2, 0)
    for node in NODES:
        assert {"kubeadm", "kubectl", "kubelet"} <= set(older.on(node, "apt-mark showhold").split())
        assert "unschedulable" not in kubectl(older, f"get node {node} -o yaml")


def test_the_deploy_after_it_completes_it(older: Lab) -> None:
    deployed = older.deploy()
    assert deployed.status == 0, deployed.errors
    assert older.deploy().changed == []
    checked = older.check()
    assert checked.status == 0, checked.text


def test_an_upgrade_that_is_done_changes_nothing(older: Lab) -> None:
    again = older.deploy(UPGRADE)
    assert again.status == 0, again.errors
    assert {version.rpartition(".")[0] for version in versions(older).values()} == {"v1.34"}


def test_a_downgrade_is_refused(older: Lab) -> None:
    refused = older.deploy(UPGRADE, inventory=OLDER)
    assert refused.status != 0
    assert "cannot be downgraded" in refused.errors
