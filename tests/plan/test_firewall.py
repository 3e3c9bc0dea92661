"""What the packet filter of a node accepts: it follows from roles, nodes and networks."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.plan import NodePlan
from lockstep.plan.firewall import FirewallPlan
from lockstep.plan.system import Listener
from tests.checks import recorded
from tests.plan.on_release import planned_on, prod_on, texts


def node(name: str = "worker3", **firewall: Any) -> NodePlan:
    wanted = {"kind": "nftables", **firewall}
    context = recorded.clustered(lambda one: one["os"].update(firewall=wanted))
    return context.plan.nodes[name]


def nft(plan: NodePlan) -> str:
    return "\n".join(plan.firewall.rules)


def test_every_listener_of_a_node_is_open_to_the_management_network() -> None:
    for name in ("worker3", "head1"):
        plan = node(name)
        prefix = plan.spec.networks["management"].prefix
        ssh, *others = plan.system.listeners
        assert ssh == Listener("ssh.service", "tcp", 22)
        assert others
        for one in others:
            accepts = (
                f'ip6 saddr {prefix} {one.protocol} dport {one.port} accept comment "{one.unit}"'
            )
            assert accepts in plan.firewall.rules


def test_ssh_is_open_to_everyone_and_comes_first() -> None:
    accepted = node().firewall.accepted
    assert (accepted[0].ports, accepted[0].source) == ("tcp/22", "")
    first_rule = node().firewall.rules[2]
    assert first_rule == 'tcp dport 22 accept comment "ssh"'
    assert node().firewall.rules[-2:] == ("ct state invalid drop", "reject")


def test_nodes_trust_each_other_the_fabric_and_the_networks_of_the_site() -> None:
    plan = node(trusted=["192.0.2.0/24"], services=["udp/60000-61000"])
    sources = {one.source for one in plan.firewall.accepted if not one.ports}
    assert {str(plan.spec.networks["fabric"].prefix), "192.0.2.0/24"} < sources
    assert node("head1").firewall.accepted[1].source == "fe80::/10"
    assert 'ip saddr 192.0.2.0/24 accept comment "trusted"' in nft(plan)
    assert 'udp dport 60000-61000 accept comment "a service of the site"' in nft(plan)


def test_nodes_with_consecutive_addresses_are_few_networks() -> None:
    nodes = [
        one.source
        for one in planned_on("debian_13").nodes["head1"].firewall.accepted
        if one.why == "nodes"
    ]
    assert nodes == ["fd5a:7c1e:1000::11", "fd5a:7c1e:1000::12", "fd5a:7c1e:1000::100/124"]


def test_the_units_of_the_other_programs_are_masked() -> None:
    assert {"firewalld.service", "nftables.service"} <= set(node().system.masked_units)
    plan = node(kind="firewalld")
    assert "nftables.service" in plan.system.masked_units
    assert "firewalld.service" in plan.system.units
    assert "lockstep-firewall.service" not in plan.system.units
    assert {"firewalld", "nftables"} <= set(plan.software.packages)


def test_firewalld_gets_the_same_in_its_own_words() -> None:
    rules = node(kind="firewalld", trusted=["192.0.2.0/24"]).firewall.rules
    prefix = node().spec.networks["management"].prefix
    assert "ports: 22/tcp" in rules
    assert 'rule family="ipv4" source address="192.0.2.0/24" accept' in rules
    assert (
        f'rule family="ipv6" source address="{prefix}" port port="6818" protocol="tcp" accept'
        in rules
    )


def test_nothing_is_planned_where_nothing_is_declared() -> None:
    plan = recorded.consistent().plan.nodes["worker3"]
    assert plan.firewall == FirewallPlan()
    assert "firewall" not in plan.roles
    assert "nftables.service" not in plan.system.masked_units


@pytest.mark.parametrize(
    ("firewall", "said"),
    [
        ({"kind": "ufw"}, "nftables"),
        ({"kind": "nftables", "services": ["443"]}, '"tcp/443"'),
        ({"kind": "nftables", "services": ["tcp/70000"]}, "between 1 and 65535"),
        ({"kind": "nftables", "services": ["udp/20-10"]}, "the lower one first"),
        ({"kind": "nftables", "trusted": ["192.0.2.1"]}, "prefix length"),
        ({"kind": "nftables", "trusted": ["::/0"]}, "of every machine"),
        ({"kind": "firewalld"}, ""),
    ],
)
def test_a_packet_filter_that_cannot_be_is_refused(firewall: dict[str, Any], said: str) -> None:
    wanted = prod_on("ubuntu_24_04")
    wanted["os"]["firewall"] = firewall
    found = [text for text in texts(wanted) if text.startswith("os.firewall")]
    assert [said in text for text in found] == [True] * bool(said), found
