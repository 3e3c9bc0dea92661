"""The networks of a lab: a switch namespace with two bridges, a namespace per node, one host link.

Nothing of the host's own interfaces changes, and nodes have no route out: only their own two /64
networks and the one address of the caching proxy.
"""

import hashlib
import ipaddress
import json
from typing import Literal

from lab import proxy
from lab.commands import attempt, run
from lab.state import LabState, Node

MANAGEMENT = "mgmt0"
FABRIC = "fabric0"
HEAD_HOST_PART = 0x10
FIRST_WORKER_HOST_PART = 0x100  # worker 1 has 0x101

# Before interfaces exist: answer at once (no duplicate address detection), believe no router.
QUIET_IPV6 = (
    "for key in accept_dad accept_ra dad_transmits; do "
    'for which in all default; do echo 0 > "/proc/sys/net/ipv6/conf/$which/$key"; done; done'
)


def prefixes(lab: str) -> tuple[str, str]:
    """Management and fabric /64 of a lab, unique local addresses derived from its name."""
    digest = hashlib.sha256(lab.encode()).hexdigest()
    # 0 is the proxy's own /64.
    middle = f"{int(digest[:4], 16) or 1:x}:{int(digest[4:8], 16):x}"
    networks = (
        ipaddress.IPv6Network(f"{start}:{middle}::/64") for start in ("fd4c:5354", "fd4c:5355")
    )
    management, fabric = networks
    return str(management), str(fabric)


def address_in(prefix: str, host_part: int) -> str:
    """One address of a /64."""
    return str(ipaddress.IPv6Network(prefix)[host_part])


def host_link(lab: str) -> str:
    """The one interface a lab adds to the host (interface names hold 15 characters)."""
    return f"lab{hashlib.sha256(lab.encode()).hexdigest()[:10]}"


def switch_namespace(lab: str) -> str:
    """The namespace that holds the lab's two bridges."""
    return f"lockstep-{lab}-switch"


def node_namespace(lab: str, node: str) -> str:
    """The network namespace of a node (node names hold no '-', so labs cannot collide)."""
    return f"lockstep-{lab}-{node}"


def _ip(*words: str, what: str) -> str:
    return run(["ip", *words], what=what)


def _batch(lines: list[str], what: str, namespace: str | None = None) -> None:
    where = [] if namespace is None else ["-netns", namespace]
    run(["ip", *where, "-batch", "-"], what=what, stdin="\n".join(lines) + "\n")


def namespaces() -> set[str]:
    """Names of all network namespaces of the host."""
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
    """Make the switch and the host's link to it, if they are not complete yet."""
    link = host_link(state.name)
    gateway = address_in(state.prefix, 1)
    namespace = switch_namespace(state.name)
    if namespace in namespaces() and _has_address(gateway, link):
        return
    remove_switch(state.name)
    what = f"making the switch of lab {state.name!r}"
    _make_namespace(namespace)
    _batch(
        [
            line
            for bridge in ("mgmt", "fabric")
            for line in (
                # No spanning tree delay, no multicast snooping: neighbour discovery from the start.
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
        what=f"making {link} deaf to routers",
    )
    _batch(["link set host0 master mgmt", "link set host0 up"], what, namespace)
    # The address comes last: it is what shows that the switch is complete.
    _batch([f"link set {link} up", f"address add {gateway}/64 dev {link} nodad"], what)


def remove_switch(lab: str) -> None:
    """Remove the switch and the host's link, as far as they are there."""
    if attempt(["ip", "link", "show", "dev", host_link(lab)]).returncode == 0:
        _ip("link", "delete", host_link(lab), what=f"removing the host link of lab {lab!r}")
    if switch_namespace(lab) in namespaces():
        _ip("netns", "delete", switch_namespace(lab), what=f"removing the switch of lab {lab!r}")


def make_node(state: LabState, node: Node) -> None:
    """Give a node its namespace and links, if they are not complete yet (the node must be off)."""
    namespace = node_namespace(state.name, node.name)
    switch = switch_namespace(state.name)
    last = node.fabric_address or node.address
    if (
        namespace in namespaces()
        and _has_address(last, FABRIC if node.fabric_address else MANAGEMENT, namespace)
        and link_state(state.name, node.name) != "missing"
    ):
        return
    what = f"network of node {node.name!r}"
    _make_namespace(namespace)
    links = [(MANAGEMENT, "mgmt", node.address)]
    if node.fabric_address is not None:
        links.append((FABRIC, "fabric", node.fabric_address))
    for interface, bridge, address in links:
        port = switch_port(node.name, bridge)
        _batch(
            [
                f"link add {port} type veth peer name {interface} netns {namespace}",
                f"link set {port} master {bridge}",
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
                *(to_proxy if interface == MANAGEMENT else []),
            ],
            what,
            namespace,
        )


def make_ports(state: LabState, node: Node) -> None:
    """Give a node with a kernel of its own its switch ports, as far as they are not there."""
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
    """Remove a node's switch ports and, where it has one, its namespace."""
    found = namespaces()
    # The kernel removes a deleted namespace's interfaces a little later; the switch's ends go now,
    # so that a new node of that name can take their place.
    if switch_namespace(lab) in found:
        for bridge in ("mgmt", "fabric"):
            port = switch_port(node, bridge)
            if _has_link(lab, port):
                where = ["-netns", switch_namespace(lab), "link"]
                _ip(*where, "delete", port, what=f"removing {port}")
    if node_namespace(lab, node) in found:
        _ip("netns", "delete", node_namespace(lab, node), what=f"removing the network of {node!r}")


def switch_port(node: str, bridge: str) -> str:
    """The switch's end of a node's link."""
    return f"{bridge[0]}-{node}"


def set_link(lab: str, node: str, wanted: Literal["up", "down"]) -> None:
    """Plug or unplug all of a node's links at the switch."""
    for bridge in ("mgmt", "fabric"):
        port = switch_port(node, bridge)
        if _has_link(lab, port):
            where = ["ip", "-netns", switch_namespace(lab), "link"]
            run([*where, "set", port, wanted], what=f"setting {port} {wanted}")


def link_state(lab: str, node: str) -> Literal["up", "cut", "missing"]:
    """Whether the switch lets a node's management link through."""
    result = attempt(
        [
            *("ip", "-netns", switch_namespace(lab), "-json", "link"),
            *("show", "dev", switch_port(node, "mgmt")),
        ]
    )
    if result.returncode != 0:
        return "missing"
    return "up" if "UP" in json.loads(result.stdout)[0]["flags"] else "cut"
