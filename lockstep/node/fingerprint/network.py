"""Interfaces, addresses, routes, rules, neighbours and the other objects of ip(8)."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.ethtool import hashes_of, settings_of
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.interfaces import (
    NET,
    interface_identifier,
    permanent_addresses,
    queues_of,
    without_containers,
)
from lockstep.node.fingerprint.pods import EXCEPTIONS_OF_PODS, OF_PODS, called, routed_by
from lockstep.node.fingerprint.sysfs import value_of
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import below, exists, rows_of

Row = dict[str, Any]
EXCEPTIONS_OF_NETWORK = (
    Exempt(
        "netns",
        r"(?:cni-|netns-)?[0-9a-f]{8}-?[0-9a-f-]{4,}",
        WHOLE,
        "A container engine makes it for one container and gives it a generated name.",
    ),
    *EXCEPTIONS_OF_PODS,
)
KEEPALIVED = ("keepalived", "18")
"""Protocol of the addresses that keepalived makes, as iproute2 of Debian 13 shows it; its number in
rt_protos where iproute2 has no name for it."""
SHOWN = "address show\nroute show table all\nneighbour show nud permanent\nneighbour show proxy\n"
FOR_IPV4 = f"{SHOWN}rule show\nnexthop show\nmroute show\ntoken list\n"
FOR_IPV6 = "rule show\nmroute show\naddrlabel list\n"
STATE_FLAGS = frozenset({"LOWER_UP", "NO-CARRIER", "RUNNING", "DORMANT", "M-DOWN", "ECHO"})
STATE = re.compile(
    r"ifindex|link_index|link_netnsid|ifname|operstate|qdisc|promiscuity|allmulti|addr_info|flags"
    r"|phys_\w+|parentbus|parentdev|stats.*|linkmode|event|xdp.*|num_[rt]x_queues|link_kind"
    r"|permaddr|tso_max_\w+|vfinfo_list|info_slave_data\.(?:state|mii_status|link_failure_count|perm_hwaddr"
    r"|queue_id|ad_\w+|id|no|designated_\w+|\w*timer|topology_\w+|config_pending|fdb_n_learned"
    r"|mcast_eht_hosts_cnt|\w*root_\w+|bridge_id|backup_nhid|hold_timer)"
    r"|info_data\.(?:bridge_id|root_\w+|topology_\w+|\w*_timer|fdb_n_learned|active_slave|ad_info.*"
    r"|mii_status|querier_state.*|mcast_querier_\w*state.*|usedbcqueuelen|peer_notif_left)"
)
"""Keys of ip(8) that tell a state, a number or an identity; VFs are told apart below. A bridge
keeps the least tso_max_size of ports that it had."""
ORIGINS = {"0": "of the device", "1": "random", "2": "of another interface", "3": "set"}
"""Values of addr_assign_type (Documentation/ABI/testing/sysfs-class-net)."""
Found = dict[str, list[Row]]
_shown: WeakKeyDictionary[Commands, Found] = WeakKeyDictionary()


def shown_by_ip(commands: Commands) -> Found:
    """Return what two runs of ip(8) show; all domains of one record share them.

    A command that an older kernel or ip lacks gives nothing, so each row says itself what it is.
    """
    if commands not in _shown:
        found: Found = {}
        for family, text in (("-4", FOR_IPV4), ("-6", FOR_IPV6)):
            # "-4" would also restrict addresses and routes; without it, all families are shown.
            given = ("-6",) if family == "-6" else ()
            argv = ("ip", *given, "-force", "-json", "-details", "-batch", "-")
            status, out, err = commands.outcome(*argv, text=text)
            rows = list(_rows(out))
            if not rows and family == "-4":  # a kernel may lack IPv6
                raise Unread(f"ip: exit {status}: {(err.strip() or 'no output')[:200]}")
            for row in rows:
                row["ip"] = family[1:]
                found.setdefault(kind_of(row), []).append(row)
        _shown[commands] = found
    return _shown[commands]


def _rows(text: str) -> Iterator[Row]:
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            return
        rows, at = decoder.raw_decode(text, at)
        yield from (row for row in rows if row)


def kind_of(row: Row) -> str:
    """Return what a row of ip(8) describes, by the keys that only this kind has."""
    for key, kind in (
        ("addr_info", "link"),
        ("token", "token"),
        ("origin", "mroute"),
        ("proxy", "neighbour"),
        ("state", "neighbour"),
        ("priority", "rule"),
        ("label", "label"),
    ):
        if key in row:
            return kind
    return "nexthop" if "id" in row else "route" if "type" in row else "other"


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of nested data with the path of each; lists are one text."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from flat(one, f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, list):
        yield (
            prefix,
            ", ".join(
                one if isinstance(one, str) else json.dumps(one, sort_keys=True) for one in value
            ),
        )
    else:
        yield prefix, str(value)


def links(commands: Commands) -> list[Row]:
    """Return the rows of the interfaces that do not belong to a container."""
    rows = {row["ifname"]: row for row in shown_by_ip(commands)["link"]}
    return [rows[name] for name in without_containers(rows)]


def leased_addresses(commands: Commands) -> dict[str, list[str]]:
    """Return the IPv4 addresses with a limited lifetime: a DHCP server gave them (ip-address(8)).

    If the plan has such an address, the plan says what it is.
    """
    found: dict[str, list[str]] = {}
    for row in shown_by_ip(commands).get("link", ()):
        for about in row["addr_info"]:
            if about.get("dynamic") and about.get("family") == "inet" and "local" in about:
                found.setdefault(f"leased address of {row['ifname']}", []).append(about["local"])
    return found


def read_interfaces(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each interface: what ip(8) and ethtool(8) show, without states."""
    groups = _groups()
    tokens = {row["ifname"]: row["token"] for row in shown_by_ip(commands).get("token", ())}
    of_ports = set(permanent_addresses().values())
    rows = links(commands)
    filtering = [row for row in rows if ("linkinfo.info_data.vlan_filtering", "1") in flat(row)]
    vlans = _vlans(commands) if filtering else {}
    for row in rows:
        name = row["ifname"]
        fields = {
            key: value
            for path, value in flat(row)
            if not STATE.fullmatch(key := path.replace("linkinfo.", "")) and key != "ip"
        }
        fields["flags"] = ", ".join(sorted(set(row["flags"]) - STATE_FLAGS))
        for function in row.get("vfinfo_list", ()):
            number = function.get("vf")
            for path, value in flat(function):
                if not re.search(r"^vf$|address|broadcast|guid|stats", path):
                    fields[f"vf{number}.{path}"] = value
        if "xdp" in row:
            fields["xdp"] = str(row["xdp"].get("mode"))
        if tokens.get(name, "::") != "::":
            fields["token"] = tokens[name]
        if name in groups:
            fields["groups"] = ", ".join(groups[name])
        if fields.get("address") in of_ports:
            fields["address"] = "of a port of a bond"
        # How the address was chosen tells a changed one, which is an identity by itself.
        origin = value_of(f"{NET}/{name}/addr_assign_type")
        fields["address_origin"] = ORIGINS.get(origin or "", "unknown")
        if name in vlans:
            fields["vlans"] = vlans[name]
        fields.update(queues_of(name))
        if name != "lo":
            fields.update(settings_of(name))
        if exists(f"{NET}/{name}/device"):
            fields.update(hashes_of(name))
        yield Entry(name, fields)


def _vlans(commands: Commands) -> Fields:
    found = {}
    for row in json.loads(commands.run("bridge", "-json", "-details", "vlan", "show")):
        texts = [" ".join(value for _, value in flat(one)) for one in row.get("vlans", ())]
        found[row["ifname"]] = ", ".join(texts)
    return found


def _groups() -> dict[str, list[str]]:
    """Return the multicast groups of each interface that do not follow from its addresses.

    Those that an address or the kernel itself joins are left out: all nodes, all routers, and the
    solicited nodes' groups (RFC 4291 2.7.1), and the link addresses of groups (RFC 1112, RFC 2464).
    """
    found: dict[str, set[str]] = {}
    covered: set[tuple[str, str]] = set()
    name = ""
    for words in rows_of("/proc/net/igmp", after=1) if exists("/proc/net/igmp") else ():
        if words[0].isdigit():
            name = words[1].rstrip(":")  # a long name touches the colon
        elif len(words[0]) == 8:
            address = ".".join(str(int(words[0][at : at + 2], 16)) for at in (6, 4, 2, 0))
            low = int("".join(words[0][at : at + 2] for at in (6, 4, 2, 0)), 16) & 0x7FFFFF
            covered.add((name, f"01005e{low:06x}"))
            if address not in ("224.0.0.1", "224.0.0.2", "224.0.0.106"):
                found.setdefault(name, set()).add(address)
    for words in rows_of("/proc/net/igmp6") if exists("/proc/net/igmp6") else ():
        name, group = words[1], words[2]
        covered.add((name, f"3333{group[-8:]}"))
        if not re.fullmatch(r"ff0[125]0{27}[12]|ff020{19}1ff.{6}|ff020{26}6a", group):
            address = ":".join(group[at : at + 4] for at in range(0, 32, 4))
            found.setdefault(name, set()).add(address)
    for words in rows_of("/proc/net/dev_mcast") if exists("/proc/net/dev_mcast") else ():
        if (words[1], words[4]) not in covered and not words[4].startswith("3333ff"):
            found.setdefault(words[1], set()).add(words[4])
    return {name: sorted(groups) for name, groups in found.items()}


def read_addresses(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each address of an interface.

    Privacy addresses (RFC 8981) are left out, and the link-local address that the kernel makes when
    a link comes up for the first time: of Docker's bridge, with the first container. So are those
    that keepalived moves between nodes.
    """
    for row in links(commands):
        for about in row["addr_info"]:
            if about.get("temporary") or not about or _made(about, row.get("address", "")):
                continue
            if about.get("protocol") in KEEPALIVED:
                continue
            fields = {
                key: value
                for key, value in flat(about)
                if key not in ("valid_life_time", "preferred_life_time", "local", "prefixlen")
                and not re.fullmatch(r"tentative|deprecated|dadfailed|optimistic|protocol", key)
            }
            fields["lifetime"] = "limited" if about.get("dynamic") else "forever"
            if not about.get("dynamic") and about.get("deprecated"):
                fields["lifetime"] += ", not preferred"
            name = f"{called(row['ifname'])} {about.get('local', 'any')}/{about.get('prefixlen')}"
            yield Entry(name, fields)


def _made(about: Row, mac: str) -> bool:
    """Return whether the kernel has made a link-local address.

    It says so since version 5.18 (IFAPROT_KERNEL_LL); before, the MAC address tells.
    """
    if about.get("family") != "inet6" or about.get("scope") != "link":
        return False
    ending = interface_identifier(mac)
    if not ending or "protocol" in about:
        return about.get("protocol") == "kernel_ll"
    return socket.inet_pton(socket.AF_INET6, about["local"]).endswith(ending)


def read_routes(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each route, of all tables and families.

    The kernel's own rows of the table local follow from the addresses, and those to link-local
    ones from the state of the links, so they are left out; so are those to addresses that
    keepalived moves.
    """
    moved = {
        about["local"]
        for row in links(commands)
        for about in row["addr_info"]
        if about.get("protocol") in KEEPALIVED
    }
    found = shown_by_ip(commands)
    kept = {row["ifname"] for row in links(commands)}
    entries = []
    for row in found.get("route", ()):
        own = row.get("protocol") == "kernel"
        if own and (row.get("table") == "local" or row.get("dst") in {"fe80::/64", *moved}):
            continue
        if row.get("dev", "lo") not in kept or "cache" in row:
            continue
        name = row.get("dst", "default")
        if row.get("table", "main") != "main":
            name += f" table {row['table']}"
        # Several IPv6 routes to one network differ by the interface only.
        device = called(row.get("dev", ""))
        alone = row.get("protocol") == "kernel" or (name == "default" and device)
        if alone or OF_PODS.fullmatch(device):
            name += f" dev {device or None}"
        if by := routed_by(row.get("protocol", "")):
            name += f" by {by}"
        if name.startswith("default"):
            name = f"{'IPv6' if 'pref' in row else 'IPv4'} {name}"
        if "metric" in row and row.get("protocol") != "kernel":
            name += f" metric {row['metric']}"
        fields = dict(_without_state(row, "dst", "expires", "age", "nh_info"))
        entries.append(Entry(name, fields))
    yield from numbered(entries)


def _without_state(row: Row, *others: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a row without flags that tell a state of the link."""
    row = json.loads(json.dumps(row))
    for part in (row, *row.get("nexthops", ())):
        flags = set(part.get("flags", ())) - {"linkdown", "dead"}
        part["flags"] = sorted(flags)
    for key, value in flat(row):
        if key not in ("ip", *others) and not (key == "flags" and not value):
            yield key, value


def numbered(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield objects; of several with one name, those after the first are numbered."""
    seen: dict[str, int] = {}
    for name, fields in sorted(entries, key=lambda one: (one.name, sorted(one.fields.items()))):
        seen[name] = seen.get(name, 0) + 1
        yield Entry(name if seen[name] == 1 else f"{name} #{seen[name]}", fields)


def read_rules(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each rule of the routing policy database, and each label (RFC 6724)."""
    entries = []
    for row in shown_by_ip(commands).get("rule", ()):
        family = "IPv6" if row["ip"] == "6" else "IPv4"
        name = f"{family} {row['priority']}: from {row.get('src', 'all')}"
        name += f"/{row['srclen']}" if "srclen" in row else ""
        if "dst" in row:
            name += f" to {row['dst']}" + (f"/{row['dstlen']}" if "dstlen" in row else "")
        entries.append(Entry(name, dict(_without_state(row, "priority"))))
    for row in shown_by_ip(commands).get("label", ()):
        name = f"address label of {row['address']}/{row['prefixlen']}"
        name += f" dev {row['dev']}" if "dev" in row else ""
        entries.append(Entry(name, {"label": str(row["label"])}))
    yield from numbered(entries)


def read_neighbours(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each permanent neighbour, proxy, and static entry of a bridge."""
    found = shown_by_ip(commands)
    entries = []
    for row in found.get("neighbour", ()):
        kind = "proxy " if "proxy" in row else ""
        fields = dict(_without_state(row, "dst", "dev", "proxy"))
        entries.append(Entry(f"{kind}{row['dst']} dev {called(row.get('dev', 'any'))}", fields))
    kinds = {row.get("linkinfo", {}).get("info_kind") for row in found["link"]}
    if kinds & {"bridge", "vxlan"}:
        entries.extend(_forwarded(commands, found["link"]))
    yield from numbered(entries)


def _forwarded(commands: Commands, every: list[Row]) -> Iterator[Entry]:
    """Yield the static entries of bridges and VXLANs, without those of local interfaces."""
    text = commands.run("bridge", "-json", "fdb", "show")
    own = {row.get("address") for row in every}
    kept = set(without_containers(row["ifname"] for row in every))
    # Some versions print a list in a list.
    rows = json.loads(text or "[]")
    for row in rows[0] if rows and isinstance(rows[0], list) else rows:
        static = row.get("state") in ("permanent", "static", "noarp")
        group = row.get("mac", "").startswith(("33:33:", "01:00:5e:", "01:80:c2:"))
        # Group addresses are told with the interface.
        if static and not group and row["mac"] not in own and row.get("ifname") in kept:
            name = f"fdb {row['mac']} dev {row['ifname']}"
            yield Entry(name, dict(_without_state(row, "mac", "ifname")))


def read_nexthops(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each nexthop of ip-nexthop(8)."""
    found = shown_by_ip(commands)
    for row in found.get("nexthop", ()):
        yield Entry(str(row["id"]), dict(_without_state(row, "id")))
    for row in found.get("mroute", ()):
        yield Entry(f"multicast {row.get('origin')} {row.get('dst')}", {"to": str(row.get("oifs"))})


def read_namespaces(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each named network namespace (ip-netns(8))."""
    for name in below("/run/netns"):
        yield Entry(name, {"state": "present"})


NETWORK: tuple[Domain, ...] = (
    Domain("interface", read_interfaces, 4),
    Domain("address", read_addresses),
    Domain("route", read_routes),
    Domain("rule", read_rules),
    Domain("neighbour", read_neighbours),
    Domain("nexthop", read_nexthops),
    Domain("netns", read_namespaces),
)
