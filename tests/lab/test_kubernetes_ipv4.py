"""Kubernetes over IPv4 alone: three heads with a virtual address, pods, Services, and names.

The tests are steps in the life of one cluster, in the order of this file.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.kubectl import in_own_namespace, leads_to_all, web_servers
from tests.lab.labs import deployed_lab
from tests.lab.test_kubernetes_heads import HEADS, Heads

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = "test-kubernetes-ipv4"
INVENTORY = "tests/lab/kubernetes_ipv4_inventory.py"
WORKERS = ("worker1", "worker2")
ADDRESSES = {name: f"10.77.0.{last}" for last, name in enumerate((*HEADS, *WORKERS), 11)}
VIRTUAL_ADDRESS = "10.77.0.10"
"""As in the inventory."""


@pytest.fixture(scope="module")
def heads() -> Iterator[Heads]:
    up = ("--heads", "3", "--workers", "2", "--kubernetes", "1.34")
    with deployed_lab(NAME, *up, deploys=()) as lab:
        made = Heads(lab, VIRTUAL_ADDRESS, INVENTORY)
        for name, address in ADDRESSES.items():
            lab.on(name, f"ip address replace {address}/24 dev mgmt0")
        made.deploy()
        yield made


def test_a_second_deploy_changes_nothing_and_no_node_differs(heads: Heads) -> None:
    heads.is_settled()


def test_nodes_pods_and_services_have_ipv4_addresses_only(heads: Heads) -> None:
    nodes = heads.get("nodes")["items"]
    found = {
        node["metadata"]["name"]: [
            one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"
        ]
        for node in nodes
    }
    assert found == {name: [address] for name, address in ADDRESSES.items()}
    pods = [one["status"]["podIPs"] for one in heads.get("pods --all-namespaces")["items"]]
    services = [one["spec"]["clusterIPs"] for one in heads.get("services -A")["items"]]
    addresses = {one["ip"] for several in pods for one in several}.union(*services)
    assert not [one for one in addresses if ":" in one]


def test_a_service_is_found_by_name_on_both_workers_and_leads_to_both(heads: Heads) -> None:
    with in_own_namespace(heads.lab, "smoke") as kubernetes:
        web_servers(kubernetes, WORKERS)
        assert leads_to_all(kubernetes, WORKERS).startswith("10.79.")


def test_the_address_leaves_a_head_that_lost_its_power(heads: Heads) -> None:
    lost = heads.lose_the_holder()
    heads.lab.lab("power-on", lost)
    heads.lab.on(lost, f"ip address replace {ADDRESSES[lost]}/24 dev mgmt0")
    other = next(name for name in HEADS if name != lost)
    heads.ready(lost, at=other)
    assert heads.members(other) == list(HEADS)
    heads.deploy()
    heads.is_settled()
