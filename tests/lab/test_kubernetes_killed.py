"""kubeadm init and kubeadm join, killed at ten moments: the next run completes them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.lab.labs import PYTHON, Lab, deployed_lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

STATE = "/var/lib/lockstep/kubernetes"
RESET = (
    f"kubeadm reset --force >/dev/null 2>&1; rm -rf {STATE}; ! test -e /etc/kubernetes/kubelet.conf"
)
KUBECTL = "kubectl --kubeconfig /etc/kubernetes/super-admin.conf --request-timeout=1s"
KUBEADM, SESSION = "kubeadm", "the session"
BEGUN = f"test -e {STATE}/begun && pgrep -x kubeadm"
"""The note is there a moment before kubeadm is."""
MOMENTS = {
    "init has begun": ("head", BEGUN, KUBEADM),
    "init has the kubeconfigs": ("head", "test -e /etc/kubernetes/admin.conf", SESSION),
    "init has written etcd's manifest": (
        *("head", "test -e /etc/kubernetes/manifests/etcd.yaml", KUBEADM),
    ),
    "init waits for the API server": ("head", "test -d /var/lib/etcd/member/wal", SESSION),
    "the API server is ready": ("head", f"{KUBECTL} get --raw /readyz", KUBEADM),
    "init has stored its configuration": (
        *("head", f"{KUBECTL} get configmap -n kube-system kubeadm-config", SESSION),
    ),
    "join has begun": ("worker1", BEGUN, SESSION),
    "join has found the cluster": (
        *("worker1", "test -e /etc/kubernetes/bootstrap-kubelet.conf", KUBEADM),
    ),
    "join has a certificate": ("worker1", "test -e /etc/kubernetes/kubelet.conf", SESSION),
    "join has configured the kubelet": ("worker1", "test -e /var/lib/kubelet/config.yaml", KUBEADM),
}
"""Moment -> the node, a command that succeeds from then on, and what is killed (SIGKILL)."""
KILLED = {
    KUBEADM: "pkill -KILL -x kubeadm",
    # The shell that runs kubeadm would note its end, and a lost connection ends no command.
    SESSION: "pkill -KILL -x kubeadm; pkill -KILL -u ops",
}
WITHIN_S = 230
"""The whole next deploy takes less than the four minutes of one of kubeadm's own waits."""
NODE_IS_READY = (
    "kubectl --kubeconfig /etc/kubernetes/admin.conf wait node {} --for=condition=Ready "
    "--timeout=60s"
)


@pytest.fixture(scope="module")
def deployed() -> Iterator[Lab]:
    with deployed_lab("test-killed-pods", "--kubernetes", "1.34", "--workers", "1") as lab:
        yield lab


def deploy_killed(lab: Lab, node: str, reached: str, what: str) -> None:
    """Deploy, and kill what makes the node a member once a command succeeds there."""
    script = (
        f"for i in $(seq 3000); do if {reached} >/dev/null 2>&1; then {KILLED[what]}; "
        "exit 0; fi; sleep 0.1; done; exit 1"
    )
    watching = subprocess.Popen(
        [str(PYTHON), "-m", "lab", "run", node, "--", "sh", "-c", script],
        cwd=lab.tree,
        env=lab.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with watching:
        killed = lab.deploy()
        assert watching.wait(timeout=60) == 0, "the moment never came"
    assert killed.status != 0
    assert lab.on(node, f"test -e {STATE}/begun && ! test -e {STATE}/done && echo so") == "so\n"


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_next_deploy_completes_it(deployed: Lab, moment: str) -> None:
    node, reached, what = MOMENTS[moment]
    deployed.on(node, RESET)
    deploy_killed(deployed, node, reached, what)
    began = time.monotonic()
    again = deployed.deploy()
    assert again.status == 0, again.errors
    assert time.monotonic() - began < WITHIN_S
    for one in ("head", "worker1"):
        deployed.on("head", NODE_IS_READY.format(one))
    assert deployed.deploy().changed == []
