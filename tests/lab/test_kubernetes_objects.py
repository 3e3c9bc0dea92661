"""What the description gives to users of the cluster: volumes, rights, limits, secrecy."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.kubectl import BUSYBOX, Kubernetes, fetched, in_own_namespace, pod
from tests.lab.labs import INVENTORY, ROOT, Lab

pytestmark = [pytest.mark.slow]

SPACE = "objects"
GPU = "nvidia.com/gpu"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the level "restricted" of the Pod Security Standards asks of a container."""


@pytest.fixture(scope="module")
def kubernetes(pods: Lab) -> Iterator[Kubernetes]:
    """The administrator, in a namespace that only these tests have."""
    with in_own_namespace(pods, SPACE) as found:
        yield found


@pytest.fixture
def vision(pods: Lab) -> Iterator[Kubernetes]:
    """The administrator, in a namespace of the description."""
    found = Kubernetes(pods, "vision")
    yield found
    found.run("delete pods,secrets,configmaps -l app --now --timeout=60s")


@pytest.fixture
def login(pods: Lab, tmp_path: Path) -> Iterator[dict[str, Kubernetes]]:
    """The users of the description, each with the kubeconfig that they were given."""
    users = {}
    for name in ("ada", "grace"):
        conf, path = tmp_path / name, f"/root/{name}.conf"
        lockstep = str(ROOT / ".venv/bin/lockstep")
        said = pods.command(lockstep, "kubeconfig", INVENTORY, str(conf), "--user", name)
        text = conf.read_text(encoding="utf-8")
        assert os.stat(conf).st_mode & 0o777 == 0o600
        assert "PRIVATE KEY" not in said.stdout + said.stderr
        write = ("run", "head", "--", "sh", "-c", f"umask 077; cat >{path}")
        pods.lab(*write, stdin=text)
        users[name] = Kubernetes(pods, "vision", conf=path)
    yield users
    pods.on("head", "rm /root/ada.conf /root/grace.conf")


def test_a_pod_reads_the_volume_that_another_one_wrote(kubernetes: Kubernetes) -> None:
    """The claim names no storage class: the default one makes the volume."""
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    write = f"echo kept >/data/file && {BUSYBOX} sync; {BUSYBOX} sleep 3600"
    kubernetes.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Mi"}},
            },
        },
        pod("writes", [BUSYBOX, "sh", "-c", write], container=mount, volumes=volumes),
    )
    kubernetes.ready("writes")
    assert kubernetes.get("pvc data")["spec"]["storageClassName"] == "local-path"
    kubernetes.run("delete pod writes --now --timeout=60s")
    kubernetes.apply(pod("reads", container=mount, volumes=volumes))
    kubernetes.ready("reads")
    assert kubernetes.run(f"exec reads -- {BUSYBOX} cat /data/file") == "kept\n"
    node = kubernetes.get("pod reads")["spec"]["nodeName"]
    folder = "ls -d /srv/volumes/*_objects_data 2>/dev/null | wc -l"
    assert kubernetes.lab.on(node, folder).strip() == "1"
    # With its claim, a volume and its folder go away.
    kubernetes.run("delete pod reads --now --timeout=60s")
    kubernetes.run("delete pvc data --timeout=60s")
    kubernetes.eventually("get pv", "No resources found")
    assert kubernetes.lab.on(node, folder).strip() == "0"


def test_a_user_works_in_one_namespace_and_reads_no_other(
    vision: Kubernetes, login: dict[str, Kubernetes]
) -> None:
    ada, grace = login["ada"], login["grace"]
    assert "ada" in ada.run("auth whoami")
    ada.apply(pod("of-ada"))
    ada.ready("of-ada")
    assert ada.run(f"exec of-ada -- {BUSYBOX} echo hello") == "hello\n"
    for words in (
        "get pods -n speech",
        "get secrets -n speech",
        "get pods -A",
        "get nodes",
        "get resourcequotas -n kube-system",
        "create namespace mine",
        "create rolebinding more --clusterrole=admin --user=ada",
    ):
        said = ada.run(words, check=False)
        assert "forbidden" in said, said
        assert 'User "ada" cannot' in said
    assert "worker1" in grace.run("get nodes")
    assert "of-ada" in grace.run("get pods")


def test_a_quota_refuses_what_is_beyond_it(vision: Kubernetes) -> None:
    eight = {"resources": {"limits": {GPU: "8"}}}
    one = {"resources": {"limits": {GPU: "1"}}}
    vision.apply(pod("eight", container=eight))
    said = vision.apply(pod("one-more", container=one), check=False)
    assert "is forbidden: exceeded quota: lockstep" in said
    assert f"requested: requests.{GPU}=1, used: requests.{GPU}=8" in said


def test_pod_security_refuses_what_the_level_of_a_namespace_does_not_allow(
    vision: Kubernetes, pods: Lab
) -> None:
    privileged = pod("privileged", container={"securityContext": {"privileged": True}})
    said = vision.apply(privileged, check=False)
    assert 'violates PodSecurity "baseline:v1.34": privileged' in said
    speech = Kubernetes(pods, "speech")
    assert 'violates PodSecurity "restricted:v1.34"' in speech.apply(pod("root"), check=False)
    speech.apply(pod("user", container={"securityContext": RESTRICTED}))
    try:
        speech.ready("user")
        assert speech.run(f"exec user -- {BUSYBOX} id -u") == "1000\n"
    finally:
        speech.run("delete pod user --now --timeout=60s")


def test_secrets_are_neither_in_etcds_files_nor_in_the_audit_log(vision: Kubernetes) -> None:
    secret, plain = secrets.token_hex(16), secrets.token_hex(16)
    labels = {"app": "secrecy"}
    vision.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "secrecy", "labels": labels},
            "stringData": {"word": secret},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "secrecy", "labels": labels},
            "data": {"word": plain},
        },
    )
    assert vision.run("get secret secrecy -o go-template='{{.data.word | base64decode}}'") == secret

    def files_with(word: str, folder: str) -> str:
        # The word comes on standard input: sudo and the kernel's audit log arguments.
        script = f"grep -rlF -f - {folder} || test $? = 1"
        return vision.lab.lab("run", "head", "--", "sh", "-c", script, stdin=word).stdout

    assert files_with(plain, "/var/lib/etcd")
    assert not files_with(secret, "/var/lib/etcd")
    assert files_with("/registry/secrets/vision/secrecy", "/var/lib/etcd")
    for word in (plain, secret):
        assert not files_with(word, "/var/log/kubernetes")
    assert files_with('"resource":"secrets","namespace":"vision"', "/var/log/kubernetes")


def test_a_port_of_a_node_leads_to_a_pod(kubernetes: Kubernetes) -> None:
    serve = f"mkdir /w; echo by-port >/w/index.html; {BUSYBOX} httpd -f -p 8080 -h /w"
    port = {"ports": [{"containerPort": 8080, "hostPort": 18080}]}
    kubernetes.apply(
        pod("serves", [BUSYBOX, "sh", "-c", serve], container=port, nodeName="worker1")
    )
    kubernetes.ready("serves")
    address = kubernetes.get("pod serves")["status"]["hostIP"]
    assert fetched(kubernetes.lab, f"http://[{address}]:18080/") == "by-port\n"
    kubernetes.apply(pod("asks", nodeName="worker2"))
    kubernetes.ready("asks")
    said = kubernetes.run(f"exec asks -- {BUSYBOX} wget -q -O- 'http://[{address}]:18080/'")
    assert said == "by-port\n"
    kubernetes.run("delete pod serves --now --timeout=60s")
    with pytest.raises(AssertionError, match="urlopen error"):
        fetched(kubernetes.lab, f"http://[{address}]:18080/")


def test_exec_passes_input_and_the_exit_status(kubernetes: Kubernetes) -> None:
    kubernetes.apply(pod("runs"))
    kubernetes.ready("runs")
    assert kubernetes.run(f"exec -i runs -- {BUSYBOX} cat", stdin="a line\n") == "a line\n"
    said = kubernetes.run(f"exec runs -- {BUSYBOX} sh -c 'exit 7'", check=False)
    assert "terminated with exit code 7" in said


def test_an_urgent_pod_takes_the_gpus_of_a_batch_pod(kubernetes: Kubernetes) -> None:
    eight = {"resources": {"limits": {GPU: "8"}}}
    batch = ("batch1", "batch2")
    kubernetes.apply(*(pod(name, container=eight, priorityClassName="batch") for name in batch))
    kubernetes.ready(*batch)
    assert kubernetes.get("pod batch1")["spec"]["priority"] == -10
    # A pod of the class "batch" waits, because the class does not preempt.
    kubernetes.apply(pod("batch3", container=eight, priorityClassName="batch"))
    kubernetes.eventually("describe pod batch3", f"Insufficient {GPU}")
    kubernetes.apply(pod("now", container=eight, priorityClassName="urgent"))
    kubernetes.ready("now")
    assert kubernetes.get("pod now")["spec"]["priority"] == 1000
    left = {one["metadata"]["name"] for one in kubernetes.get("pods -l app")["items"]}
    assert len(left & set(batch)) == 1
    kubernetes.run("delete pods --all --now --timeout=60s")
