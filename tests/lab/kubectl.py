"""kubectl on the head of a lab, as users of the cluster call it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.lab.labs import Lab

ADMIN_CONF = "/etc/kubernetes/admin.conf"
IMAGE = "docker.io/library/busybox:1.37"
BUSYBOX = "/bin/busybox"
SLEEP = [BUSYBOX, "sleep", "3600"]
READY_S = 90
SYNCED_S = 15
"""The longest time until kube-proxy of every node leads to a pod that is Ready."""
ALERT_S = 90
"""The longest time between a fault and its alert: intervals of scraping and of rules."""


@dataclass(frozen=True)
class Kubernetes:
    """kubectl on the head, in one namespace."""

    lab: Lab
    namespace: str
    conf: str = ADMIN_CONF
    """The path of the kubeconfig on the head."""

    def run(self, words: str, check: bool = True, stdin: str | None = None) -> str:
        """Run kubectl; if it may fail, return also what it said on standard error."""
        kubectl = f"kubectl --kubeconfig {self.conf} --request-timeout=30s -n {self.namespace}"
        script = f"{kubectl} {words}"
        done = self.lab.lab("run", "head", "--", "sh", "-c", script, check=check, stdin=stdin)
        return done.stdout if check else done.stdout + done.stderr

    def apply(self, *objects: dict[str, Any], check: bool = True) -> str:
        """Apply objects, and return what kubectl said."""
        items = {"kind": "List", "apiVersion": "v1", "items": objects}
        return self.run("apply -f -", check=check, stdin=json.dumps(items))

    def get(self, words: str) -> Any:
        """Return an object, or a list of them."""
        return json.loads(self.run(f"get {words} -o json"))

    def ready(self, *names: str) -> None:
        """Wait until pods are Ready."""
        words = " ".join(f"pod/{name}" for name in names)
        self.run(f"wait --for=condition=Ready {words} --timeout={READY_S}s")

    def eventually(self, words: str, expected: str, within_s: float = READY_S) -> None:
        """Wait until a command prints a text."""
        deadline = time.monotonic() + within_s
        while expected not in (said := self.run(words, check=False)):
            assert time.monotonic() < deadline, said
            time.sleep(1)


@contextmanager
def in_own_namespace(lab: Lab, name: str) -> Iterator[Kubernetes]:
    """Make a namespace, and delete it afterwards with all that is in it."""
    found = Kubernetes(lab, name)
    found.run(f"create namespace {name}")
    try:
        yield found
    finally:
        found.run(f"delete namespace {name} --wait=true")


def pod(
    name: str,
    command: list[str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod with one container, which sleeps."""
    container = {"name": "main", "image": IMAGE, "command": command or SLEEP}
    container |= spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def web_servers(kubernetes: Kubernetes, nodes: tuple[str, ...]) -> None:
    """Start a pod on each node, which answers with the node's name, and the Service ``web``."""
    serve = f"mkdir /w; echo $NODE > /w/index.html; {BUSYBOX} httpd -f -p 8080 -h /w"
    kubernetes.apply(
        *(
            pod(
                f"web-{node}",
                [BUSYBOX, "sh", "-c", serve],
                {"app": "web"},
                container={"env": [{"name": "NODE", "value": node}]},
                nodeName=node,
            )
            for node in nodes
        ),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    )
    kubernetes.ready(*(f"web-{node}" for node in nodes))


def leads_to_all(kubernetes: Kubernetes, nodes: tuple[str, ...]) -> str:
    """Hold that the web servers' Service is found by name and leads to all; return its address.

    kube-proxy writes its rules at most once a second (``minSyncPeriod``), so a node may know one
    of two new pods when the other is Ready too. Thus the first questions may fail or go to one
    pod; after every pod has answered once, no question may fail.
    """
    address = str(kubernetes.get("service web")["spec"]["clusterIP"])
    ask = f"{BUSYBOX} wget -q -T 5 -O- http://web/"
    for node in nodes:
        name = f"web.{kubernetes.namespace}.svc.cluster.local"
        said = kubernetes.run(f"exec web-{node} -- {BUSYBOX} nslookup {name}")
        assert address in said
        for other in nodes:
            kubernetes.eventually(f"exec web-{node} -- {ask}", other, SYNCED_S)
        loop = f"for i in $(seq 20); do {ask} || echo unanswered; done"
        answers = kubernetes.run(f"exec web-{node} -- {BUSYBOX} sh -c '{loop}'").split()
        assert (len(answers), set(answers)) == (20, set(nodes)), answers
    return address


def fetched(lab: Lab, address: str) -> str:
    """Return what a web server says to the head."""
    script = (
        "import sys, urllib.request as web; "
        "print(web.urlopen(sys.argv[1], timeout=10).read().decode(), end='')"
    )
    return lab.lab("run", "head", "--", "python3", "-c", script, address).stdout


def wait_for_alert(lab: Lab, name: str, node: str) -> None:
    """Wait until Prometheus' API has an alert for a node; it fires minutes later."""
    path = "{.status.addresses[?(@.type=='InternalIP')].address}"
    address = Kubernetes(lab, "default").run(f'get node head -o jsonpath="{path}"')
    deadline = time.monotonic() + ALERT_S
    while True:
        answer = json.loads(fetched(lab, f"http://[{address}]:9090/api/v1/alerts"))
        found = [one["labels"] for one in answer["data"]["alerts"]]
        if (name, node) in {(one["alertname"], one.get("node")) for one in found}:
            return
        assert time.monotonic() < deadline, found
        time.sleep(2)
