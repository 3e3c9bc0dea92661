"""The request for a node contains names from its plan, and no expected values."""

from __future__ import annotations

import json
from dataclasses import asdict

from lockstep.fleet.request import PODS, alike, own, request
from tests.checks import recorded
from tests.golden.write import plan_of


def test_every_owned_file_unit_and_key_is_asked_for() -> None:
    for node in recorded.consistent().plan.nodes.values():
        asked = request(node)
        files = recorded.consistent().files_of(node)
        assert set(asked.files) == set(files)
        assert set(node.system.units) < set(asked.units)
        assert set(asked.sysctls) == set(node.system.sysctl)
        assert set(node.system.masked_units) < set(asked.units)
        settings = (*node.hardware.cpu_files, *node.hardware.kernel_files)
        assert set(asked.kernel_files) == {file.path for file in settings}
        assert "tcp/22" in asked.listeners
        assert len(asked.listeners) == len(node.system.listeners)


def test_containers_are_started_only_where_somebody_asked_for_them() -> None:
    worker = recorded.consistent().plan.nodes["worker1"]
    assert request(worker).containers == ()
    assert request(worker, containers=True).containers == ("docker", "podman")
    assert request(worker, containers=True).container_devices == ("/dev/infiniband",)
    head = recorded.consistent().plan.nodes["head1"]
    assert request(head, containers=True).containers == ()


def test_no_expected_value_is_in_a_request() -> None:
    for node in recorded.consistent().plan.nodes.values():
        text = json.dumps(asdict(request(node)))
        for file in recorded.consistent().files_of(node).values():
            assert file.sha256 not in text
        assert recorded.SECRETS.munge_key_sha256 not in text


def test_a_head_is_asked_for_its_own_api_server() -> None:
    nodes = plan_of("kubernetes").nodes.values()
    asked = {node.name: request(node).api_server for node in nodes if request(node).api_server}
    assert asked == {
        name: (f"[fd5a:7c1e:1000::1{name[-1]}]:6443",) for name in ("head1", "head2", "head3")
    }


def test_the_network_of_its_pods_is_an_identity_of_a_node() -> None:
    nodes = plan_of("kubernetes").nodes.values()
    networks = {node.name: dict(own(node)).get(PODS) for node in nodes}
    assert networks == {node.name: node.node.pods and str(node.node.pods) for node in nodes}
    assert len(set(networks.values()) - {None}) > 3
    # It is a network, and has no place in ranges of addresses.
    assert all(PODS not in dict(alike(node)) for node in nodes)
