"""What a node accepts from other machines, and the rules of the packet filter that follow from it.

The listeners of a node follow from its roles, so nobody lists ports twice (docs/firewall.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import collapse_addresses, ip_network
from typing import TYPE_CHECKING

from lockstep.spec import Service

if TYPE_CHECKING:
    from lockstep.plan.node import NodePlan

NFTABLES, FIREWALLD = "nftables", "firewalld"
NFT_UNIT, NFT_FILE = "lockstep-firewall.service", "/etc/lockstep/firewall.nft"
"""A unit of its own: Debian's and RHEL's nftables.service runs ``nft flush ruleset`` when it stops,
which takes the tables of Docker, Podman and Kubernetes away, too."""
ZONE = "lockstep"
ZONE_FILE, FIREWALLD_CONF = f"/etc/firewalld/zones/{ZONE}.xml", "/etc/firewalld/firewalld.conf"
TABLES = {NFTABLES: "table inet lockstep", FIREWALLD: "table inet firewalld"}
"""The table in which each program keeps its rules; firewalld's is that of its backend nftables."""
UNITS = {NFTABLES: NFT_UNIT, FIREWALLD: "firewalld.service"}
OTHERS = ("firewalld.service", "nftables.service", "ufw.service")
"""Units that load rules of their own, or flush those of others; ufw is Ubuntu's."""


@dataclass(frozen=True)
class Accepted:
    """Packets that a node accepts."""

    why: str
    source: str = ""
    """A network or an address; "" for every sender."""
    ports: str = ""
    """Such as ``tcp/22``; "" for every port of every protocol."""

    @property
    def family(self) -> str:
        """``ipv6`` or ``ipv4``: the family of the source."""
        return "ipv6" if ":" in self.source else "ipv4"

    @property
    def protocol(self) -> str:
        """``tcp`` or ``udp``; "" for every protocol."""
        return self.ports.partition("/")[0]

    @property
    def port(self) -> str:
        """A port or a range of ports; "" for every port."""
        return self.ports.partition("/")[2]

    @property
    def nft(self) -> str:
        """The rule as nft(8) prints it with ``--stateless --numeric-protocol``."""
        source = f"ip{'6' if self.family == 'ipv6' else ''} saddr {self.source} "
        port = f"{self.protocol} dport {self.port} " if self.ports else ""
        return f'{source if self.source else ""}{port}accept comment "{self.why}"'

    @property
    def firewalld(self) -> str:
        """The line that ``firewall-cmd --list-all`` prints for it (firewalld.richlanguage(5))."""
        if not self.source:
            return f"ports: {self.port}/{self.protocol}"
        port = f' port port="{self.port}" protocol="{self.protocol}"' if self.ports else ""
        return f'rule family="{self.family}" source address="{self.source}"{port} accept'


@dataclass(frozen=True)
class FirewallPlan:
    """The packet filter of a node; everything is empty if Lockstep leaves it alone."""

    kind: str = ""
    accepted: tuple[Accepted, ...] = ()
    """ssh comes first, so that no later rule can end a deploy's connection."""

    @cached_property
    def rules(self) -> tuple[str, ...]:
        """The rules, as the reading ``firewall.rules`` has them."""
        if self.kind == FIREWALLD:
            lines = {one.firewalld for one in self.accepted}
            return tuple(sorted({f"zone: {ZONE}", "target: default", TABLES[FIREWALLD], *lines}))
        ssh, *others = (one.nft for one in self.accepted)
        return (
            "chain input {",
            "type filter hook input priority 0; policy drop;",
            ssh,
            "ct state established,related accept",
            'iif "lo" accept',
            # IPv6 does not work without ICMPv6: neighbours, routers and path MTUs (RFC 4890).
            'meta l4proto 1 accept comment "ICMP"',
            'meta l4proto 58 accept comment "ICMPv6"',
            *others,
            "ct state invalid drop",
            "reject",
        )


def plan(node: NodePlan) -> FirewallPlan:
    """Return the packet filter of a node."""
    wanted = node.spec.os.firewall
    if wanted is None or "firewall" not in node.roles:
        return FirewallPlan()
    return FirewallPlan(wanted.kind, tuple(dict.fromkeys(_accepted(node))))


def masked(node: NodePlan) -> tuple[str, ...]:
    """Return the units that would load other rules, or flush the planned ones."""
    wanted = node.spec.os.firewall
    return tuple(unit for unit in OTHERS if wanted and unit != UNITS[wanted.kind])


def _accepted(node: NodePlan) -> Iterator[Accepted]:
    ssh, *listeners = node.system.listeners
    spec = node.spec
    yield Accepted("ssh", ports=f"{ssh.protocol}/{ssh.port}")
    for one in spec.os.firewall.services if spec.os.firewall else ():
        yield Accepted("a service of the site", ports=one)
    # firewalld's service dhcpv6-client: answers are no part of a connection that the kernel knows.
    yield Accepted("DHCPv6 client", "fe80::/10", "udp/546")
    for network in _of_nodes(node):
        yield Accepted("nodes", network)
    for family in spec.networks["fabric"].families if "fabric" in spec.networks else ():
        yield Accepted("fabric", _text(str(family.prefix)))
    for trusted in spec.os.firewall.trusted if spec.os.firewall else ():
        yield Accepted("trusted", _text(str(trusted)))
    management = _text(str(spec.networks["management"].prefix))
    if spec.kubernetes is not None and node.runs_kubelet:
        # Their addresses reach the API server and the kubelets unchanged.
        yield Accepted("pods", _text(str(spec.kubernetes.pod_prefix)))
        if node.runs(Service.KUBERNETES_CONTROL_PLANE):
            yield Accepted("kube-apiserver", management, f"tcp/{spec.kubernetes.api_port}")
    for listener in listeners:
        yield Accepted(listener.unit, management, f"{listener.protocol}/{listener.port}")


def _of_nodes(node: NodePlan) -> tuple[str, ...]:
    """Return the management addresses of all nodes, as few networks as possible."""
    made = node.cluster.made
    if _of_nodes not in made:
        every = [
            ip_network(str(address))
            for one in node.cluster.nodes.values()
            for address in (one.node.management, one.node.management_second)
            if address is not None
        ]
        made[_of_nodes] = tuple(
            _text(str(network))
            for version in dict.fromkeys(one.version for one in every)
            for network in collapse_addresses(one for one in every if one.version == version)  # type: ignore[type-var]
        )
    found: tuple[str, ...] = made[_of_nodes]
    return found


def _text(network: str) -> str:
    """Return a network as nft(8) prints it: without a length if it is a single address."""
    return str(one.network_address) if (one := ip_network(network)).num_addresses == 1 else str(one)
