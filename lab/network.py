"""Networks of a lab: a switch namespace with two bridges, a namespace per node, one host link.

The host's own interfaces do not change. Nodes have no default route: they reach only their two /64
networks and the address of the caching proxy.
"""

import hashlib
import ipaddress
import json
import re
from typing import Literal

from lab import proxy
from lab.commands import attempt, run
from lab.state import LabState, Node

RAIL_SHIFT = 64
"""Each rail has a /64 of its own: 2**64 addresses above those of the rail before it."""
HEAD_HOST_PART = 0x10
FIRST_WORKER_HOST_PART = 0x100  # worker 1 has 0x101

# Set before interfaces exist: no duplicate address detection, ignore router advertisements.
QUIET_IPV6 = (
    "for key in accept_dad accept_ra dad_transmits; do "
    'for which in all default; do echo 0 > "/proc/sys/net/ipv6/conf/$which/$key"; done; done'
)


def prefixes(lab: str) -> tuple[str, str]:
    """Return the management and fabric /64 of a lab: unique local, derived from its name."""
    digest = hashlib.sha256(lab.encode()).hexdigest()
    # 0 is the proxy's /64.
    middle = f"{int(digest[:4], 16) or 1:x}:{int(digest[4:8], 16):x}"
    networks = (
        ipaddress.IPv6Network(f"{start}:{middle}::/64") for start in ("fd4c:5354", "fd4c:5355")
    )
    management, fabric = networks
    return str(management), str(fabric)


def address_in(prefix: str, host_part: int) -> str:
    """Return one address of a /64."""
    return str(ipaddress.IPv6Network(prefix)[host_part])


def fabric_prefix_for(prefix: str, rails: int) -> str:
    """Return the fabric network of a lab with several rails: a /56, with one /64 for each rail.

    Args:
        prefix: the /64 of ``prefixes``.
        rails: their number, at most 256.
    """
    if rails == 1:
        return prefix
    first = ipaddress.IPv6Network(prefix).network_address
    return str(ipaddress.IPv6Network((first, 56), strict=False))


def fabric_links(node: Node) -> list[tuple[str, str]]:
    """Return name and address of each fabric interface of a node, by rail."""
    if node.fabric_address is None:
        return []
    first = int(ipaddress.IPv6Address(node.fabric_address))
    return [
        (name, str(ipaddress.IPv6Address(first + (rail << RAIL_SHIFT))))
        for rail, name in enumerate(node.fabric_interfaces)
    ]


def host_link(lab: str) -> str:
    """Return the name of the lab's interface on the host (at most 15 characters)."""
    return f"lab{hashlib.sha256(lab.encode()).hexdigest()[:10]}"


def switch_namespace(lab: str) -> str:
    """Return the namespace with the lab's two bridges."""
    return f"lockstep-{lab}-switch"


def node_namespace(lab: str, node: str) -> str:
    """Return the network namespace of a node (node names have no '-', so names are unique)."""
    return f"lockstep-{lab}-{node}"


def mac_address(lab: str, node: str, interface: str) -> str:
    """Return a locally administered MAC address, unique for the interface.

    It stays the same through a power cycle, as that of a network card does. Otherwise other
    machines would send to the old address for up to a minute, until their neighbour entry has
    become stale and its probes have failed (man 7 arp: base_reachable_time_ms,
    delay_first_probe_time).
    """
    digest = hashlib.sha256(f"{lab} {node} {interface}".encode()).hexdigest()
    return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])


def _ip(*words: str, what: str) -> str:
    return run(["ip", *words], what=what)


def _batch(lines: list[str], what: str, namespace: str | None = None) -> None:
    where = [] if namespace is None else ["-netns", namespace]
    run(["ip", *where, "-batch", "-"], what=what, stdin="\n".join(lines) + "\n")


def namespaces() -> set[str]:
    """Return the names of all network namespaces of the host."""
    listed = _ip("-json", "netns", "list", what="listing network namespaces")
    return {entry["name"] for entry in json.loads(listed or "[]")}


def _make_namespace(name: str) -> None:
    if name in namespaces():
        _ip("netns", "delete", name, what=f"removing an unfinished {name}")
    _ip("netns", "add", name, what=f"making {name}")
    run(["ip", "netns", "exec", name, "sh", "-euc", QUIET_IPV6], what=f"settings of {name}")
    _ip("-netns", name, "link", "set", "lo", "up", what=f"loopback of {name}")


def _has_address(address: str, link: str, namespace: str | None = None) -> bool:
    where = [] if namespace is None else ["-netns", namespace]
    result = attempt(["ip", *where, "-6", "-o", "address", "show", "dev", link, "to", address])
    return result.returncode == 0 and bool(result.stdout.strip())


def make_switch(state: LabState) -> None:
    """Create the switch and the host's link to it if they are not complete."""
    link = host_link(state.name)
    gateway = address_in(state.prefix, 1)
    namespace = switch_namespace(state.name)
    if namespace in namespaces() and _has_address(gateway, link):
        return
    remove_switch(state.name)
    what = f"creating the switch of lab {state.name!r}"
    _make_namespace(namespace)
    _batch(
        [
            line
            for bridge in ("mgmt", "fabric")
            for line in (
                # No spanning tree delay, no multicast snooping: neighbour discovery works at once.
                f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                f"link set {bridge} up",
            )
        ],
        what,
        namespace,
    )
    _ip(
        *("link", "add", link, "type", "veth", "peer", "name", "host0", "netns", namespace),
        what=what,
    )
    run(
        ["sh", "-euc", 'echo 0 > "/proc/sys/net/ipv6/conf/$0/accept_ra"', link],
        what=f"disabling router advertisements on {link}",
    )
    _batch(["link set host0 master mgmt", "link set host0 up"], what, namespace)
    # Set the address last: it marks the switch as complete.
    _batch([f"link set {link} up", f"address add {gateway}/64 dev {link} nodad"], what)


def remove_switch(lab: str) -> None:
    """Remove the switch and the host's link if they exist."""
    if attempt(["ip", "link", "show", "dev", host_link(lab)]).returncode == 0:
        _ip("link", "delete", host_link(lab), what=f"removing the host link of lab {lab!r}")
    if switch_namespace(lab) in namespaces():
        _ip("netns", "delete", switch_namespace(lab), what=f"removing the switch of lab {lab!r}")


def make_node(state: LabState, node: Node) -> None:
    """Create the namespace and links of a node that is off, if they are not complete."""
    namespace = node_namespace(state.name, node.name)
    switch = switch_namespace(state.name)
    links = [
        (f"fabric{rail or ''}", name, address)
        for rail, (name, address) in enumerate(fabric_links(node))
    ]
    # The last address marks the network as complete. Those of the fabric can be the node's own: its
    # ifupdown takes them away at a shutdown.
    links.append(("mgmt", node.interface, node.address))
    if (
        namespace in namespaces()
        and _has_address(node.address, node.interface, namespace)
        and link_state(state.name, node.name) != "missing"
    ):
        return
    what = f"network of node {node.name!r}"
    remove_node(state.name, node.name)
    _make_namespace(namespace)
    for link, interface, address in links:
        port = switch_port(node.name, link)
        mac = mac_address(state.name, node.name, interface)
        _batch(
            [
                f"link add {port} type veth peer name {interface} address {mac} netns {namespace}",
                f"link set {port} master {re.sub(r'[0-9]', '', link)}",
                f"link set {port} up",
            ],
            what,
            switch,
        )
        gateway = address_in(state.prefix, 1)
        to_proxy = [f"route add {proxy.ADDRESS}/128 via {gateway} dev {interface}"]
        _batch([f"link set {interface} up"], what, namespace)
        _batch(
            [
                f"address add {address}/64 dev {interface} nodad",
                *(to_proxy if link == "mgmt" else []),
            ],
            what,
            namespace,
        )


def make_ports(state: LabState, node: Node) -> None:
    """Create the missing switch ports of a QEMU node."""
    for bridge in ("mgmt", "fabric") if node.fabric_address else ("mgmt",):
        port = switch_port(node.name, bridge)
        if _has_link(state.name, port):
            continue
        _batch(
            [
                f"tuntap add dev {port} mode tap",
                f"link set {port} master {bridge}",
                f"link set {port} up",
            ],
            f"network of node {node.name!r}",
            switch_namespace(state.name),
        )


def _has_link(lab: str, port: str) -> bool:
    where = ["-netns", switch_namespace(lab), "link"]
    return attempt(["ip", *where, "show", "dev", port]).returncode == 0


def remove_node(lab: str, node: str) -> None:
    """Remove a node's switch ports and its namespace, if it has one."""
    found = namespaces()
    # The kernel removes the interfaces of a deleted namespace with a delay; remove the switch's
    # ends now, so that a new node with the same name can be created.
    if switch_namespace(lab) in found:
        for port in _ports(lab, node):
            where = ["-netns", switch_namespace(lab), "link"]
            _ip(*where, "delete", port, what=f"removing {port}")
    if node_namespace(lab, node) in found:
        _ip("netns", "delete", node_namespace(lab, node), what=f"removing the network of {node!r}")


def switch_port(node: str, link: str) -> str:
    """Return the name of the switch's end of a node's link: mgmt, fabric, fabric1, ..."""
    rail = re.sub(r"\D", "", link)
    return f"{link[0]}{rail}-{node}"


def _ports(lab: str, node: str) -> list[str]:
    """Return the names of all ports of a node at the switch."""
    where = ["-netns", switch_namespace(lab), "-json", "link"]
    listed = json.loads(_ip(*where, "show", what=f"listing the ports of {node!r}") or "[]")
    pattern = re.compile(rf"[mf]\d*-{re.escape(node)}")
    return [one["ifname"] for one in listed if pattern.fullmatch(one["ifname"])]


def set_link(lab: str, node: str, wanted: Literal["up", "down"]) -> None:
    """Connect or disconnect all of a node's links at the switch."""
    for port in _ports(lab, node):
        where = ["ip", "-netns", switch_namespace(lab), "link"]
        run([*where, "set", port, wanted], what=f"setting {port} {wanted}")


def link_state(lab: str, node: str) -> Literal["up", "cut", "missing"]:
    """Return the state of a node's management link at the switch."""
    result = attempt(
        [
            *("ip", "-netns", switch_namespace(lab), "-json", "link"),
            *("show", "dev", switch_port(node, "mgmt")),
        ]
    )
    if result.returncode != 0:
        return "missing"
    return "up" if "UP" in json.loads(result.stdout)[0]["flags"] else "cut"
