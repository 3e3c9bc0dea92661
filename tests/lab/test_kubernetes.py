"""What users of the cluster do: pods, Services, names, jobs; and what a deploy promises."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lab.kubectl import (
    BUSYBOX,
    READY_S,
    Kubernetes,
    in_own_namespace,
    leads_to_all,
    pod,
    web_servers,
)
from tests.lab.labs import Lab

pytestmark = [pytest.mark.slow]

SPACE = "smoke"
WORKERS = ("worker1", "worker2")


@pytest.fixture(scope="module")
def kubernetes(pods: Lab) -> Iterator[Kubernetes]:
    with in_own_namespace(pods, SPACE) as found:
        yield found


@pytest.fixture(scope="module")
def on_both(kubernetes: Kubernetes) -> tuple[str, ...]:
    """A pod on each worker, and a Service with both."""
    web_servers(kubernetes, WORKERS)
    return WORKERS


def test_a_service_is_found_by_name_on_both_workers_over_ipv6_and_leads_to_both(
    kubernetes: Kubernetes, on_both: tuple[str, ...]
) -> None:
    assert ":" in leads_to_all(kubernetes, on_both)


def test_a_pod_reaches_a_pod_of_the_other_worker(
    kubernetes: Kubernetes, on_both: tuple[str, ...]
) -> None:
    one, two = on_both
    other = kubernetes.get(f"pod web-{two}")["status"]["podIP"]
    said = kubernetes.run(f"exec web-{one} -- {BUSYBOX} wget -q -O- http://[{other}]:8080/")
    assert said.strip() == two


def test_logs_are_read(kubernetes: Kubernetes) -> None:
    kubernetes.apply(pod("talks", [BUSYBOX, "sh", "-c", "echo a line; sleep 3600"]))
    kubernetes.run(f"wait --for=condition=Ready pod talks --timeout={READY_S}s")
    kubernetes.eventually("logs talks", "a line", 10)


def test_a_config_map_is_a_file(kubernetes: Kubernetes) -> None:
    kubernetes.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "settings"},
            "data": {"key": "a value"},
        },
        pod(
            "reads",
            container={"volumeMounts": [{"name": "m", "mountPath": "/settings"}]},
            volumes=[{"name": "m", "configMap": {"name": "settings"}}],
        ),
    )
    kubernetes.run(f"wait --for=condition=Ready pod reads --timeout={READY_S}s")
    assert kubernetes.run(f"exec reads -- {BUSYBOX} cat /settings/key") == "a value"


def test_an_update_rolls_and_is_undone(kubernetes: Kubernetes) -> None:
    template = pod("web2")
    kubernetes.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web2"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web2"}},
                "template": {"metadata": template["metadata"], "spec": template["spec"]},
            },
        }
    )
    kubernetes.run(f"rollout status deployment web2 --timeout={READY_S}s")
    kubernetes.run("set env deployment web2 NEW=1")
    kubernetes.run(f"rollout status deployment web2 --timeout={READY_S}s")
    kubernetes.run("rollout undo deployment web2")
    kubernetes.run(f"rollout status deployment web2 --timeout={READY_S}s")
    assert "NEW" not in json.dumps(kubernetes.get("deployment web2")["spec"])


def test_a_job_ends_at_its_deadline(kubernetes: Kubernetes) -> None:
    spec = {"restartPolicy": "Never", **pod("job")["spec"]}
    kubernetes.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "late"},
            "spec": {"activeDeadlineSeconds": 5, "backoffLimit": 0, "template": {"spec": spec}},
        }
    )
    kubernetes.eventually(
        "get job late -o jsonpath={.status.conditions[*].reason}", "DeadlineExceeded", 60
    )


def test_an_indexed_job_runs_on_both_workers(kubernetes: Kubernetes) -> None:
    spec = {
        "restartPolicy": "Never",
        "subdomain": "indexed",
        **pod("job", [BUSYBOX, "sh", "-c", "echo index $JOB_COMPLETION_INDEX"])["spec"],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "indexed"}},
            }
        ],
    }
    template = {"metadata": {"labels": {"app": "indexed"}}, "spec": spec}
    kubernetes.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "indexed"},
            "spec": {
                "completions": 2,
                "parallelism": 2,
                "completionMode": "Indexed",
                "template": template,
            },
        }
    )
    kubernetes.run(f"wait --for=condition=Complete job indexed --timeout={READY_S}s")
    found = kubernetes.get("pods -l app=indexed")["items"]
    assert {one["spec"]["nodeName"] for one in found} == {"worker1", "worker2"}


def test_a_drain_evicts_and_the_pod_comes_back_elsewhere(kubernetes: Kubernetes) -> None:
    before = kubernetes.get("pods -l app=web2")["items"]
    drained = before[0]["spec"]["nodeName"]
    (other,) = set(WORKERS) - {drained}
    kubernetes.run(
        f"drain {drained} --ignore-daemonsets --force --delete-emptydir-data --timeout=60s"
    )
    try:
        kubernetes.run(f"rollout status deployment web2 --timeout={READY_S}s")
        after = kubernetes.get("pods -l app=web2 --field-selector=status.phase=Running")["items"]
        assert {one["spec"]["nodeName"] for one in after} == {other}
    finally:
        kubernetes.run(f"uncordon {drained}")
    assert len(after) == len(before)


def test_a_second_deploy_changes_nothing(pods: Lab) -> None:
    again = pods.deploy()
    assert (again.status, again.changed) == (0, [])


def test_the_check_finds_no_difference(pods: Lab, kubernetes: Kubernetes) -> None:
    """With pods of users: their interfaces, mounts and packet filters are no differences."""
    more = ("more-1", "more-2")
    kubernetes.apply(*(pod(name, nodeName=WORKERS[0]) for name in more))  # on one worker only
    kubernetes.ready(*more)
    found = pods.check(rules_only=False)
    assert found.status == 0, found.text


def test_each_alert_of_kubernetes_fires(pods: Lab) -> None:
    pods.promtool_passes("tests/lab/kubernetes_alerts.yml")


def test_a_worker_that_lost_power_takes_pods_again(pods: Lab, kubernetes: Kubernetes) -> None:
    pods.lab("power-cycle", "worker2")
    kubernetes.eventually("get node worker2", " Ready ", 120)
    kubernetes.apply(pod("later", nodeName="worker2"))
    kubernetes.run(f"wait --for=condition=Ready pod later --timeout={READY_S}s")
    name = "kubernetes.default.svc.cluster.local"
    kubernetes.eventually(f"exec later -- {BUSYBOX} nslookup {name}", "Address", 60)
    assert pods.deploy().status == 0


def test_a_head_that_lost_power_has_its_cluster_again(pods: Lab, kubernetes: Kubernetes) -> None:
    pods.lab("power-cycle", "head")
    kubernetes.eventually("get --raw /readyz", "ok", 180)
    kubernetes.eventually("get nodes", "worker1 ", 60)
    kubernetes.eventually("get pods later", "Running", 60)


def test_a_node_object_that_was_deleted_comes_back(pods: Lab, kubernetes: Kubernetes) -> None:
    kubernetes.run("delete node worker2")
    pods.deploy()
    kubernetes.eventually("get node worker2", " Ready ", 90)
