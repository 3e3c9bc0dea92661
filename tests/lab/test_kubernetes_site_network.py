"""Kubernetes with a pod network that the site installs after the first deploy.

The site's plugin here is ptp with routes, as Lockstep's own, but with the nodes' networks that
kube-controller-manager chose, as plugins of sites use them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.lab.kubectl import READY_S, Kubernetes, in_own_namespace, leads_to_all, web_servers
from tests.lab.labs import Lab, deployed_lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = "test-kubernetes-site-network"
INVENTORY = "tests/lab/kubernetes_site_network_inventory.py"
WORKERS = ("worker1", "worker2")
NODES = ("head", *WORKERS)
FOLDER = "/etc/cni/net.d"
CONFIG = f"{FOLDER}/10-site.conflist"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with deployed_lab(NAME, "--workers", "2", "--kubernetes", "1.34", inventory=INVENTORY) as made:
        yield made


def conditions(kubernetes: Kubernetes) -> dict[str, str]:
    """Return whether each node is Ready."""
    return {
        node["metadata"]["name"]: one["status"]
        for node in kubernetes.get("nodes")["items"]
        for one in node["status"]["conditions"]
        if one["type"] == "Ready"
    }


def test_nodes_are_not_ready_before_the_site_has_installed_a_plugin(lab: Lab) -> None:
    assert conditions(Kubernetes(lab, "default")) == dict.fromkeys(NODES, "False")
    for name in NODES:
        assert lab.on(name, f"ls -A {FOLDER}").split() == []


def test_pods_run_with_the_networks_that_each_node_object_has(lab: Lab) -> None:
    kubernetes = Kubernetes(lab, "default")
    nodes = {one["metadata"]["name"]: one for one in kubernetes.get("nodes")["items"]}
    networks = {name: one["spec"]["podCIDR"] for name, one in nodes.items()}
    addresses = {
        name: next(a["address"] for a in one["status"]["addresses"] if a["type"] == "InternalIP")
        for name, one in nodes.items()
    }
    for name in NODES:
        plugin = {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": networks[name]}]],
                "routes": [{"dst": "::/0"}],
            },
        }
        made = json.dumps({"cniVersion": "1.0.0", "name": "site", "plugins": [plugin]})
        routes = (
            f"ip route replace {networks[other]} via {addresses[other]}"
            for other in NODES
            if other != name
        )
        lab.on(name, "; ".join((f"echo '{made}' > {CONFIG}", *routes)))
    kubernetes.run(f"wait nodes --all --for=condition=Ready --timeout={READY_S}s")
    with in_own_namespace(lab, "smoke") as smoke:
        web_servers(smoke, WORKERS)
        assert ":" in leads_to_all(smoke, WORKERS)


def test_a_second_deploy_leaves_the_plugin_alone_and_no_node_differs(lab: Lab) -> None:
    digests = [lab.on(name, f"sha256sum {FOLDER}/*") for name in NODES]
    done = lab.deploy(inventory=INVENTORY)
    assert (done.status, done.changed) == (0, []), done.errors
    assert [lab.on(name, f"sha256sum {FOLDER}/*") for name in NODES] == digests
    checked = lab.check_once_read(inventory=INVENTORY)
    assert (checked.status, checked.named) == (0, set()), checked.text
