"""The virtual address of the API server: keepalived's configuration on three heads."""

from __future__ import annotations

from typing import Any

import yaml

from lockstep.files import managed
from lockstep.inventory import planned as plan
from lockstep.plan import ClusterPlan
from lockstep.plan.declaration import key, ordered
from lockstep.roles import declared
from lockstep.spec import load
from tests.golden.write import plan_of
from tests.spec.kubernetes_example import description

CONFIG = "/etc/keepalived/keepalived.conf"


def three_heads() -> dict[str, Any]:
    found = description()
    found["nodes"][0] |= {"name": "head[1-3]", "pods": "fd00:2:0:10::/64"}
    found["hardware"]["head"]["management_interface"] = "eno1"
    found["scheduler"]["virtual_address"] = "fd00:1::f"
    return found


def planned(found: dict[str, Any]) -> ClusterPlan:
    cluster, problems = load(found, declared())
    assert cluster is not None, problems
    return plan(cluster)


def text_of(cluster: ClusterPlan, node: str) -> str:
    (found,) = (one for one in managed(cluster.nodes[node], None) if one.path == CONFIG)
    return found.content.decode()


def words(cluster: ClusterPlan, node: str) -> list[list[str]]:
    return [line.split() for line in text_of(cluster, node).splitlines()]


def number(lines: list[list[str]], name: str) -> int:
    return next(int(line[-1]) for line in lines if line[:1] == [name])


def test_the_heads_send_to_each_other_and_to_nobody_else() -> None:
    lines = words(planned(three_heads()), "head2")
    begins = lines.index(["unicast_peer", "{"])
    assert lines[begins + 1 : begins + 4] == [["fd00:1::10"], ["fd00:1::12"], ["}"]]
    assert ["unicast_src_ip", "fd00:1::11"] in lines
    assert ["check_unicast_src"] in lines
    # With its whole length, or the kernel would send from it.
    assert ["fd00:1::f/128", "dev", "eno1"] in lines


def test_before_there_is_a_cluster_the_first_head_has_it_and_later_nobody_is_preferred() -> None:
    cluster = planned(three_heads())
    found = [words(cluster, name) for name in ("head1", "head2", "head3")]
    first, *others = (number(lines, "priority") for lines in found)
    assert first > max(others)
    ready = {number(lines, "priority") + number(lines, "apiserver") for lines in found}
    assert len(ready) == 1
    assert ready.pop() > first


def test_each_head_asks_its_own_api_server() -> None:
    assert "https://[fd00:1::12]:6443/readyz" in text_of(planned(three_heads()), "head3")


def test_a_single_head_has_no_peers() -> None:
    found = three_heads()
    found["nodes"][0]["name"] = "head1"
    text = text_of(planned(found), "head1")
    assert "unicast" not in text
    assert "fd00:1::f/128" in text


def test_only_the_control_plane_has_it_and_before_kubeadm_asks_there() -> None:
    """And after the role that refuses another address than the cluster has."""
    cluster = planned(three_heads())
    assert "kubernetes_virtual_address" not in cluster.nodes["worker1"].roles
    order = [key(step) for step in ordered(declared())]
    node, own, control = map(
        order.index, ("kubernetes_node", "kubernetes_virtual_address", "kubernetes_control_plane")
    )
    assert node < own < control


def test_without_a_virtual_address_there_is_no_keepalived() -> None:
    assert "kubernetes_virtual_address" not in planned(description()).nodes["head1"].roles


def test_the_interface_must_be_known() -> None:
    found = three_heads()
    del found["hardware"]["head"]["management_interface"]
    cluster, problems = load(found, declared())
    assert cluster is None
    (problem,) = problems
    assert problem.path == ("scheduler", "virtual_address")
    assert "management_interface in the hardware class of head[1-3]" in problem.allowed


def test_prometheus_asks_whichever_api_server_answers_for_the_state_of_objects() -> None:
    (node,) = [one for one in plan_of("kubernetes").nodes.values() if "prometheus" in one.roles]
    path = "/etc/prometheus/prometheus.yml"
    (found,) = (one for one in managed(node, None) if one.path == path)
    targets = {
        job["job_name"]: [one["targets"] for one in job["static_configs"]]
        for job in yaml.safe_load(found.content.decode())["scrape_configs"]
    }
    assert len(targets["kube-apiserver"]) == 3
    assert targets["kube-state-metrics"] == [["[fd5a:7c1e:1000::10]:6443"]]
