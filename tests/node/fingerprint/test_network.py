"""Interfaces, addresses, routes and their kin, from what simulated programs print."""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lockstep.node.fingerprint import ethtool, interfaces, netlink, network, traffic
from lockstep.node.fingerprint.entry import Entry, Fields
from lockstep.node.fingerprint.exempt import by_domain, without_exceptions
from lockstep.node.fingerprint.identity import identities
from lockstep.node.fingerprint.sysctl import read_sysctl
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from tests.probe.test_collect import Node, node

__all__ = ["node"]

Row = dict[str, Any]
Reader = Callable[[dict[str, Any], Commands], Iterator[Entry]]
FOREVER = 4294967295
ETH: Row = {
    "ifindex": 2,
    "ifname": "eth77",
    "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
    "mtu": 1500,
    "qdisc": "mq",
    "operstate": "UP",
    "group": "default",
    "txqlen": 1000,
    "address": "02:00:00:00:00:77",
    "promiscuity": 1,
    "tso_max_size": 65536,
    "parentdev": "0000:41:00.0",
    "addr_info": [
        {
            "family": "inet",
            "local": "10.0.0.7",
            "prefixlen": 24,
            "scope": "global",
            "dynamic": True,
            "valid_life_time": 3600,
            "preferred_life_time": 3600,
        },
        {"family": "inet6", "local": "fd00::9", "prefixlen": 64, "temporary": True},
    ],
}
BRIDGE: Row = {
    "ifindex": 3,
    "ifname": "br77",
    "flags": ["UP", "NO-CARRIER"],
    "address": "02:00:00:00:00:78",
    "linkinfo": {
        "info_kind": "bridge",
        "info_data": {"stp_state": 0, "bridge_id": "8000.2:0", "gc_timer": 3.5},
    },
    "addr_info": [],
}
PORT: Row = {
    "ifindex": 4,
    "link_index": 9,
    "ifname": "veth1a2b3c4",
    "flags": ["UP"],
    "addr_info": [],
}
ROUTE: Row = {
    "type": "unicast",
    "dst": "10.9.0.0/16",
    "gateway": "10.0.0.1",
    "dev": "eth77",
    "table": "main",
    "protocol": "static",
    "flags": ["linkdown"],
    "expires": 77,
}
RULE: Row = {"priority": 100, "src": "10.0.0.0", "srclen": 8, "table": "100"}


def prints(node: Node, ipv4: list[list[Row]], ipv6: list[list[Row]] = []) -> None:  # noqa: B006
    """Make a simulated ip(8), which tells the families apart by its first argument."""
    for name, rows in (("4", ipv4), ("6", ipv6)):
        node.file(f"/ip{name}", "\n".join(json.dumps(part) for part in rows))
    node.tool(
        "ip", f'[ "$1" = -6 ] && exec /bin/cat {node.root}/ip6; exec /bin/cat {node.root}/ip4'
    )
    node.tool("bridge", "echo '[]'")


def objects(read: Reader) -> dict[str, Fields]:
    entries = list(read({}, Commands()))
    assert len({entry.name for entry in entries}) == len(entries)
    return {entry.name: entry.fields for entry in entries}


@pytest.fixture
def plain(node: Node) -> Node:
    prints(node, [[ETH, BRIDGE], [ROUTE], [RULE]], [[RULE]])
    return node


def changed(node: Node, read: Reader, row: Row, **values: Any) -> list[str]:
    """Return the fields that differ once a row has other values."""
    base: list[list[Row]] = [[ETH, BRIDGE], [ROUTE], [RULE]]
    prints(node, base, [[RULE]])
    before = objects(read)
    other = copy.deepcopy(row)
    other.update(values)
    prints(node, [[other if one is row else one for one in part] for part in base], [[RULE]])
    after = objects(read)
    return [
        f"{name}: {field}"
        for name in sorted({*before, *after})
        for field in sorted({*before.get(name, {}), *after.get(name, {})})
        if before.get(name, {}).get(field) != after.get(name, {}).get(field)
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mtu", 9000),
        ("txqlen", 64),
        ("group", "5"),
        ("ifalias", "rack-7"),
        ("master", "br77"),
        ("gso_max_segs", 40),
        ("address", "02:00:00:00:00:99"),
    ],
)
def test_a_setting_of_an_interface(node: Node, key: str, value: Any) -> None:
    assert changed(node, network.read_interfaces, ETH, **{key: value}) == [f"eth77: {key}"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ifindex", 9),
        ("operstate", "DOWN"),
        ("promiscuity", 0),
        ("tso_max_size", 7),
        ("parentdev", "0000:81:00.0"),
        ("flags", ["UP", "MULTICAST", "BROADCAST", "NO-CARRIER"]),
    ],
)
def test_a_state_of_an_interface_is_left_out(node: Node, key: str, value: Any) -> None:
    assert changed(node, network.read_interfaces, ETH, **{key: value}) == []


def test_flags_and_bridges(node: Node) -> None:
    promiscuous = ["BROADCAST", "MULTICAST", "UP", "PROMISC"]
    found = changed(node, network.read_interfaces, ETH, flags=promiscuous)
    assert found == ["eth77: flags"]
    other = {"info_kind": "bridge", "info_data": {"stp_state": 1, "bridge_id": "x", "gc_timer": 1}}
    found = changed(node, network.read_interfaces, BRIDGE, linkinfo=other)
    assert found == ["br77: info_data.stp_state"]


def test_virtual_functions_and_programs(node: Node) -> None:
    functions = [{"vf": 3, "address": "02:00:00:00:00:03", "trust": False, "spoofchk": True}]
    found = changed(node, network.read_interfaces, ETH, vfinfo_list=functions)
    assert found == ["eth77: vf3.spoofchk", "eth77: vf3.trust"]
    assert changed(node, network.read_interfaces, ETH, xdp={"mode": 1, "prog": {"id": 7}}) == [
        "eth77: xdp"
    ]


def test_interfaces_of_containers_are_left_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "linked_elsewhere", set)
    node.file("/sys/class/net/veth1a2b3c4/iflink", "9\n")
    node.file("/sys/class/net/eth77/ifindex", "2\n")
    podman = {**BRIDGE, "ifname": "podman0"}
    prints(node, [[ETH, PORT, podman], [{**ROUTE, "dev": "veth1a2b3c4"}]])
    assert set(objects(network.read_interfaces)) == {"eth77"}
    assert objects(network.read_routes) == {}
    node.file("/sys/class/net/eth78/ifindex", "9\n")
    assert set(objects(network.read_interfaces)) == {"eth77", "veth1a2b3c4"}
    # In a machine that is a container itself, indices of two namespaces may look like a pair.
    monkeypatch.setattr(interfaces, "linked_elsewhere", lambda: {"veth1a2b3c4"})
    assert set(objects(network.read_interfaces)) == {"eth77"}


def test_the_kernel_says_whether_the_other_end_is_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def link(name: bytes, *more: bytes) -> bytes:
        named = struct.pack("=HH", 4 + len(name) + 1, netlink.IFNAME) + name + b"\0"
        return bytes(16) + b"".join(
            one.ljust(-len(one) % 4 + len(one), b"\0") for one in (named, *more)
        )

    away = struct.pack("=HHi", 8, netlink.LINK_NETNSID, 0)
    links = [link(b"veth1"), link(b"veth22", away)]
    monkeypatch.setattr(netlink, "dump", lambda protocol, kind, head: links)
    assert netlink.linked_elsewhere() == {"veth22"}


def test_queues_and_the_origin_of_the_address(plain: Node) -> None:
    for queue, mask in (("rx-0", "3"), ("rx-1", "0")):
        plain.file(f"/sys/class/net/eth77/queues/{queue}/rps_cpus", f"{mask}\n")
    plain.file("/sys/class/net/eth77/queues/tx-0/xps_cpus", "f\n")
    plain.file("/sys/class/net/eth77/addr_assign_type", "3\n")
    seen = objects(network.read_interfaces)["eth77"]
    assert seen["rps_cpus"] == "rx-0 3, rx-1 0"
    assert seen["xps_cpus"] == "f"
    assert seen["address_origin"] == "set"


def test_groups_that_somebody_joined(plain: Node) -> None:
    plain.file(
        "/proc/net/igmp",
        "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
        "2\teth77     :     2      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n"
        "\t\t\t\tFB0000E0     1 0:00000000\t\t0\n"
        "3\tbr77-with-long: 1      V3\n\t\t\t\t010000E0     1 0:00000000\t\t0\n",
    )
    plain.file(
        "/proc/net/igmp6",
        "2    eth77 ff020000000000000000000000000001 1 0000000C 0\n"
        "2    eth77 ff0200000000000000000001ff000103 1 00000004 0\n"
        "2    eth77 ff0200000000000000000000000000fb 1 00000004 0\n",
    )
    plain.file(
        "/proc/net/dev_mcast",
        "2    eth77 1 0 01005e000001\n2    eth77 1 0 01005e0000fb\n2    eth77 1 0 3333000000fb\n"
        "2    eth77 1 0 3333ff000103\n2    eth77 1 0 0180c200000e\n2    eth77 1 0 333300000001\n"
        "3    br77-with-long 1 0 01005e000001\n",
    )
    prints(plain, [[ETH, {**BRIDGE, "ifname": "br77-with-long"}]])
    assert "groups" not in objects(network.read_interfaces)["br77-with-long"]
    seen = objects(network.read_interfaces)["eth77"]["groups"]
    assert seen == "0180c200000e, 224.0.0.251, ff02:0000:0000:0000:0000:0000:0000:00fb"


def test_an_address_without_its_lifetime(plain: Node) -> None:
    assert objects(network.read_addresses) == {
        "eth77 10.0.0.7/24": {
            "family": "inet",
            "scope": "global",
            "dynamic": "True",
            "lifetime": "limited",
        }
    }


@pytest.mark.parametrize(
    ("local", "protocol", "shown"),
    [
        ("fe80::ff:fe00:77", None, False),
        ("fe80::1234", "kernel_ll", False),
        ("fe80::5", None, True),
        ("fe80::ff:fe00:77", "static", True),
    ],
)
def test_link_local_addresses_of_the_kernel_are_left_out(
    node: Node, local: str, protocol: str | None, shown: bool
) -> None:
    about = {"family": "inet6", "local": local, "prefixlen": 64, "scope": "link"}
    about.update({"protocol": protocol} if protocol else {})
    prints(node, [[{**ETH, "addr_info": [about]}]])
    assert (f"eth77 {local}/64" in objects(network.read_addresses)) == shown


@pytest.mark.parametrize("protocol", ["keepalived", "18"])
def test_an_address_that_keepalived_moves_is_no_difference(node: Node, protocol: str) -> None:
    moved: Row = {
        "family": "inet6",
        "local": "fd00::f",
        "prefixlen": 128,
        "scope": "global",
        "deprecated": True,
        "protocol": protocol,
    }
    route: Row = {"type": "unicast", "dst": "fd00::f", "dev": "eth77", "protocol": "kernel"}
    other: Row = {**route, "dst": "fd00::/64"}
    row = {**ETH, "addr_info": [*ETH["addr_info"], moved]}
    prints(node, [[row], [route, other], []])
    assert not [name for name in objects(network.read_addresses) if "fd00::f" in name]
    assert list(objects(network.read_routes)) == ["fd00::/64 dev eth77"]


def test_a_route_without_the_state_of_its_link(plain: Node) -> None:
    assert objects(network.read_routes) == {
        "10.9.0.0/16": {
            "type": "unicast",
            "gateway": "10.0.0.1",
            "dev": "eth77",
            "table": "main",
            "protocol": "static",
        }
    }


def test_routes_are_told_by_table_metric_and_interface(node: Node) -> None:
    rows = [
        {**ROUTE, "dst": "default", "metric": 100},
        {**ROUTE, "dst": "default", "pref": "medium"},
        {**ROUTE, "table": "100"},
        {**ROUTE, "protocol": "kernel"},
        {**ROUTE, "table": "local", "protocol": "kernel"},
        {**ROUTE, "dst": "fe80::/64", "protocol": "kernel"},
    ]
    prints(node, [[ETH], rows])
    assert set(objects(network.read_routes)) == {
        "IPv4 default dev eth77 metric 100",
        "IPv6 default dev eth77",
        "10.9.0.0/16 table 100",
        "10.9.0.0/16 dev eth77",
    }


def test_routes_to_the_pods_of_other_nodes_are_known_by_their_protocol(node: Node) -> None:
    prints(node, [[ETH], [{**ROUTE, "dst": "fd00:1:0:ffff:2::/80", "protocol": "76"}]])
    assert set(objects(network.read_routes)) == {"fd00:1:0:ffff:2::/80"}
    node.file("/etc/lockstep/pod-routes", "fd00:1:0:ffff:2::/80 fd00:1::102\n")
    assert set(objects(network.read_routes)) == {"fd00:1:0:ffff:2::/80 by Lockstep"}


def test_the_same_routes_are_those_of_calico_where_it_runs(node: Node) -> None:
    rows = [
        {**ROUTE, "dst": "10.99.0.64/26", "protocol": "bird"},
        {**ROUTE, "dst": "default", "dev": "flannel.1"},
    ]
    prints(node, [[ETH, {**ETH, "ifname": "flannel.1"}], rows])
    table = by_domain(network.EXCEPTIONS_OF_NETWORK)

    def compared() -> set[str]:
        found = {one.name: one for one in network.read_routes({}, Commands())}
        return {name for name in found if without_exceptions("route", found[name], table)}

    by_default = "IPv4 default dev flannel.1"
    assert compared() == {"10.99.0.64/26 by bird", by_default}
    node.file("/var/lib/calico/nodename", "n1\n")
    assert compared() == {by_default}


def test_rules_of_both_families(plain: Node) -> None:
    assert objects(network.read_rules) == {
        f"{family} 100: from 10.0.0.0/8": {"src": "10.0.0.0", "srclen": "8", "table": "100"}
        for family in ("IPv4", "IPv6")
    }


def test_two_rules_with_one_name_are_numbered(node: Node) -> None:
    prints(node, [[ETH], [RULE, {**RULE, "table": "99"}]])
    assert set(objects(network.read_rules)) == {
        "IPv4 100: from 10.0.0.0/8",
        "IPv4 100: from 10.0.0.0/8 #2",
    }


def test_what_has_few_objects(node: Node) -> None:
    prints(
        node,
        [
            [ETH, BRIDGE],
            [{"dst": "10.0.0.9", "dev": "eth77", "lladdr": "02:0:0:0:0:9", "state": ["PERMANENT"]}],
            [{"dst": "10.0.0.8", "dev": "eth77", "proxy": None}],
            [{"id": 9, "dev": "eth77", "flags": []}],
            [{"token": "::77", "ifname": "eth77"}],
        ],
        [[{"address": "fd00::", "prefixlen": 8, "label": 99}]],
    )
    rows = [
        {"mac": "02:00:00:00:00:78", "ifname": "br77", "state": "permanent"},
        {"mac": "33:33:00:00:00:01", "ifname": "br77", "state": "permanent"},
        {"mac": "02:00:00:00:00:aa", "ifname": "br77", "state": "permanent", "dst": "10.0.0.3"},
        {"mac": "02:00:00:00:00:bb", "ifname": "br77", "state": ""},
    ]
    node.tool("bridge", f"echo '{json.dumps([rows])}'")
    assert objects(network.read_neighbours) == {
        "10.0.0.9 dev eth77": {"lladdr": "02:0:0:0:0:9", "state": "PERMANENT"},
        "proxy 10.0.0.8 dev eth77": {},
        "fdb 02:00:00:00:00:aa dev br77": {"state": "permanent", "dst": "10.0.0.3"},
    }
    assert objects(network.read_nexthops) == {"9": {"dev": "eth77"}}
    assert objects(network.read_rules) == {"address label of fd00::/8": {"label": "99"}}
    assert objects(network.read_interfaces)["eth77"]["token"] == "::77"


def test_all_domains_share_two_runs(plain: Node) -> None:
    commands = Commands()
    for domain in network.NETWORK:
        list(domain.read({}, commands))
    assert [ran["argv"][0] for ran in commands.ran] == ["ip", "ip", "bridge"]


def test_without_ip_the_network_is_unread(node: Node) -> None:
    node.tool("ip", "echo broken >&2; exit 1")
    with pytest.raises(Unread, match="broken"):
        list(network.read_routes({}, Commands()))


def test_named_namespaces(node: Node) -> None:
    node.file("/run/netns/blue", "")
    assert objects(network.read_namespaces) == {"blue": {"state": "present"}}


QDISCS = """qdisc noqueue 0: dev lo root refcnt 2
qdisc mq 0: dev eth77 root
qdisc fq_codel 0: dev eth77 parent :1 limit 10240p
qdisc fq_codel 0: dev eth77 parent :2 limit 10240p
qdisc tbf 8003: dev eth78 root refcnt 2 rate 1Gbit
"""


def test_queueing_disciplines_without_the_kernels_numbers(node: Node) -> None:
    for name in ("eth77", "eth78"):
        node.file(f"/sys/class/net/{name}/ifindex", "2\n")
    node.file("/q", QDISCS)
    node.tool("tc", f"exec /bin/cat {node.root}/q")
    assert objects(traffic.read_queueing) == {
        "eth77": {"qdisc": "fq_codel of one queue limit 10240p x2\nmq root"},
        "eth78": {"qdisc": "tbf root rate 1Gbit"},
    }
    node.file("/q", QDISCS.replace("8003", "8007").replace("1Gbit", "2Gbit"))
    assert objects(traffic.read_queueing)["eth78"] == {"qdisc": "tbf root rate 2Gbit"}


def test_classes_and_filters_without_counters(node: Node) -> None:
    node.file("/sys/class/net/eth77/ifindex", "2\n")
    node.tool(
        "tc",
        'case "$2" in qdisc) echo "qdisc htb 1: dev eth77 root refcnt 2 r2q 10";;\n'
        'class) echo "class htb 1:1 root prio 0 rate 1Gbit";;\n'
        'filter) echo "filter parent 1: protocol ip u32"; echo " action order 1: gact index 3 '
        'ref 1 bind 1 installed 5 sec";; esac',
    )
    assert objects(traffic.read_queueing)["eth77"] == {
        "qdisc": "htb 1: root r2q 10",
        "class": "class htb 1:1 root prio 0 rate 1Gbit",
        "filter": "filter parent 1: protocol ip u32\naction order 1: gact",
    }


def test_ipsec_is_asked_only_where_the_kernel_has_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: dict[int, list[bytes] | None] = {}
    monkeypatch.setattr(traffic, "dump", lambda protocol, kind: answers.get(kind))
    node.file("/proc/net/netlink", "sk Eth Pid Groups\n0 0 0 0\n0 6 77 0\n")
    assert objects(traffic.read_transformations) == {}
    node.file("/proc/net/netlink", "sk Eth Pid Groups\n0 0 0 0\n0 6 0 0\n")
    node.tool(
        "ip",
        'if [ "$2" = policy ]; then\n'
        'printf "src 10.0.0.1/32 dst 10.0.0.2/32 \\n\\tdir out priority 7 \\n"; else\n'
        'printf "src 10.0.0.1 dst 10.0.0.2\\n\\tproto esp spi 0x9 reqid 1 mode transport\\n"\n'
        'printf "\\tenc cbc(aes) 0x0011\\n\\tlastused 2026\\n"; fi',
    )
    assert objects(traffic.read_transformations) == {
        "policy src 10.0.0.1/32 dst 10.0.0.2/32 dir out": {"settings": "dir out priority 7"},
        "state src 10.0.0.1 dst 10.0.0.2 proto esp": {
            "settings": "proto esp mode transport\nenc cbc(aes)"
        },
    }
    answers[netlink.GET_POLICIES] = []
    assert set(objects(traffic.read_transformations)) == {
        "state src 10.0.0.1 dst 10.0.0.2 proto esp"
    }


def reply(*words: int) -> bytes:
    return struct.pack(f"={len(words)}I", *words)


def test_settings_of_a_driver(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def answer(interface: str, command: int, size: int, head: bytes = b"") -> bytes:
        asked.append(command)
        if command == ethtool.RINGS:
            return reply(8192, 0, 0, 8192, 1024, 0, 0, 512)
        if command == ethtool.COALESCE:
            return reply(8, 64, *(0,) * 7, 1, *(0,) * 12)
        if command == ethtool.COUNT:
            kind = struct.unpack("=IQ", head)[1]
            return struct.pack("=IQI", 0, kind, 2)
        if command == ethtool.STRINGS:
            return head + b"".join(name.ljust(32, b"\0") for name in (b"tso", b"gro"))
        if command == ethtool.FEATURES:
            return reply(1, 3, 3, 1, 0)
        if command == ethtool.PRIVATE:
            return reply(2)
        if command == ethtool.TABLE:
            return reply(4) if not head else reply(4, 0, 1, 0, 1)
        return b""

    for module in (ethtool, network):
        monkeypatch.setattr(module, "ethtool", answer, raising=False)
    from lockstep.node.readers import network as readers

    monkeypatch.setattr(readers, "ethtool", answer)
    monkeypatch.setattr(ethtool, "names_of_features", [])
    node.file("/sys/class/net/eth77/device/vendor", "0x15b3\n")
    seen = ethtool.settings_of("eth77")
    assert seen["rings"] == "rx 1024, rx_mini 0, rx_jumbo 0, tx 512"
    assert seen["features"] == "tso"
    assert seen["features_requested"] == "gro, tso"
    assert seen["private_flags"] == "gro"
    assert seen["spread"] == "evenly over 2"
    # The driver chooses what adaptive coalescing governs.
    assert "adaptive_rx 1" in seen["coalesce"]
    assert "rx_usecs " not in seen["coalesce"]
    assert ethtool.LINK in asked


def test_addresses_that_the_kernel_makes_are_identities(node: Node) -> None:
    node.file("/sys/class/net/eth77/address", "02:00:00:00:00:77\n")
    made = "000000fffe000077"
    node.file(
        "/proc/net/if_inet6",
        f"fe80000000000000{made} 02 40 20 80    eth77\n"
        f"20010db800000000{made} 02 40 00 00    eth77\n"
        "20010db8000000000000000000000077 02 40 00 80    eth77\n"
        "20010db8000000011234567812345678 02 40 00 200    eth77\n"
        "fe80000000000000dead00000000beef 03 40 20 80    eth78\n"
        "fe800000000000000000000000000001 04 40 20 80    eth79\n"
        "fe800000000000000000000000000002 04 40 20 80    eth79\n",
    )
    seen = {kind: values for kind, values in identities().items() if "address" in kind}
    assert seen == {
        "MAC address of eth77": ["02:00:00:00:00:77"],
        "link-local address of eth77": ["fe80::ff:fe00:77"],
        "made address in 2001:db8::/64 of eth77": ["2001:db8::ff:fe00:77"],
        "made address in 2001:db8:0:1::/64 of eth77": ["2001:db8:0:1:1234:5678:1234:5678"],
        "link-local address of eth78": ["fe80::dead:0:0:beef"],
    }


def test_bridges_of_docker_are_told_by_their_network(node: Node) -> None:
    name = "br-0123456789ab"
    node.file(f"/sys/class/net/{name}/address", "02:42:00:00:00:77\n")
    node.file(f"/proc/sys/net/ipv4/conf/{name}/forwarding", "1\n")
    node.file(
        "/proc/net/route",
        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n"
        f"{name} 000012AC 00000000 0001 0 0 0 0000FFFF 0 0 0\n",
    )
    kind = "bridge of the network 172.18.0.0/16"
    seen = identities()
    assert seen[kind] == [name]
    assert seen[f"MAC address of {kind}"] == ["02:42:00:00:00:77"]
    assert objects(read_sysctl) == {f"net.ipv4.conf.<{kind}>": {"forwarding": "1"}}


def test_the_kernel_says_what_it_has() -> None:
    """Any machine has a loopback interface; RTM_GETLINK is 18, of NETLINK_ROUTE."""
    links = netlink.dump(0, 18, struct.pack("=BBHiII", 0, 0, 0, 0, 0, 0))
    assert links
    assert any(b"lo\0" in link for link in links)
    assert netlink.dump(0, 9999) is None
