"""Commands that revert differences of the network and of packet filters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from lockstep.checks.fingerprint.reverting.case import Case, Steps, command

DEVICE = r"[\w.@:-]+"
ADDRESS = r"[0-9a-fA-F.:]+(?:/\d+)?"
FLAGS = {
    "UP": ("up", "down"),
    "PROMISC": ("promisc on", "promisc off"),
    "NOARP": ("arp off", "arp on"),
    "ALLMULTI": ("allmulticast on", "allmulticast off"),
}
"""Flags of an interface -> what sets and clears them."""
LINK = {"mtu": "mtu", "txqlen": "txqueuelen", "ifalias": "alias", "group": "group"}
LINK |= {"gso_max_segs": "gso_max_segs", "gso_max_size": "gso_max_size"}
"""Fields of ip(8)'s JSON -> options of ``ip link set`` (ip-link(8))."""
SELECTORS = frozenset(
    {"src", "srclen", "dst", "dstlen", "fwmark", "fwmask", "iif", "oif", "table", "protocol"}
)
"""Fields of a routing rule that the command can name."""
TABLES = {
    "iptables IPv4": "iptables",
    "iptables IPv6": "ip6tables",
    "legacy iptables IPv4": "iptables-legacy",
    "legacy iptables IPv6": "ip6tables-legacy",
}


NAMES = "altnames"
POLICY = re.compile(
    rf"policy src (?P<src>{ADDRESS}) dst (?P<dst>{ADDRESS}) dir (?P<way>in|out|fwd)"
)


def of_interface(case: Case) -> Steps:
    """Return the commands that make an interface as on the other nodes."""
    if not re.fullmatch(DEVICE, case.name):
        return []
    if case.is_extra:
        return [command("ip", "link", "del", "dev", case.name)] if case.was("info_kind") else []
    if case.is_missing or not case.changed <= {*LINK, "flags", NAMES}:
        return []
    names = [set(filter(None, text.split(", "))) for text in (case.was(NAMES), case.should(NAMES))]
    steps = [
        command("ip", "link", "property", verb, "dev", case.name, "altname", name)
        for verb, some in (("del", names[0] - names[1]), ("add", names[1] - names[0]))
        for name in sorted(some)
    ]
    steps += [
        command("ip", "link", "set", "dev", case.name, LINK[field], case.should(field))
        for field in sorted(case.changed & LINK.keys())
        if case.should(field) or field == "ifalias"
    ]
    now, wanted = (set(text.split(", ")) for text in (case.was("flags"), case.should("flags")))
    if not now ^ wanted <= FLAGS.keys():
        return []
    flags = (FLAGS[flag][flag in now].split() for flag in sorted(now ^ wanted))
    return [*steps, *(command("ip", "link", "set", "dev", case.name, *words) for words in flags)]


def of_address(case: Case) -> Steps:
    """Return the command for an address that only one side has."""
    match = re.fullmatch(rf"({DEVICE}) ({ADDRESS})", case.name)
    if match is None or not (case.is_extra or case.is_missing):
        return []
    if case.is_missing and case.should("lifetime") != "forever":
        return []
    verb = "del" if case.is_extra else "add"
    return [command("ip", "address", verb, match[2], "dev", match[1])]


def of_route(case: Case) -> Steps:
    """Return the command that deletes a route too many."""
    match = re.fullmatch(
        rf"(?:(?P<family>IPv[46]) )?(?P<to>default|{ADDRESS})"
        rf"(?P<more>(?: table \w+| dev {DEVICE}| metric \d+)*)",
        case.name,
    )
    if match is None or not case.is_extra or case.was("protocol") == "kernel":
        return []
    kind = case.was("type")
    six = match["family"] == "IPv6" or ":" in match["to"]
    of_type = [kind] if kind not in ("", "unicast") else []
    where = match["more"].split()
    if "dev" not in where and case.was("dev"):
        where += ["dev", case.was("dev")]
    return [command("ip", "-6" if six else "-4", "route", "del", *of_type, match["to"], *where)]


def of_rule(case: Case) -> Steps:
    """Return the command that deletes a routing rule or address label too many."""
    if not case.is_extra:
        return []
    label = re.fullmatch(rf"address label of ({ADDRESS})(?: dev ({DEVICE}))?", case.name)
    if label is not None:
        device = ["dev", label[2]] if label[2] else []
        words = ("prefix", label[1], *device, "label", case.was("label"))
        return [command("ip", "addrlabel", "del", *words)]
    rule = re.fullmatch(rf"IPv([46]) (\d+): from (all|{ADDRESS})(?: to ({ADDRESS}))?", case.name)
    if rule is None or not (case.wrong or {}).keys() <= SELECTORS:
        return []  # another rule with this priority could be deleted
    to = ["to", rule[4]] if rule[4] else []
    more = [
        word
        for field in ("fwmark", "iif", "oif", "table")
        if case.was(field)
        for word in (field, f"{case.was(field)}{_mask(case) if field == 'fwmark' else ''}")
    ]
    words = ("rule", "del", "pref", rule[2], "from", rule[3], *to, *more)
    return [command("ip", f"-{rule[1]}", *words)]


def _mask(case: Case) -> str:
    return f"/{case.was('fwmask')}" if case.was("fwmask") else ""


def of_neighbour(case: Case) -> Steps:
    """Return the command that deletes a permanent neighbour, a proxy or an entry of a bridge."""
    entry = re.fullmatch(rf"fdb ([0-9a-f:]+) dev ({DEVICE})", case.name)
    if entry is not None and case.is_extra:
        # A bridge's own entries name it as their master.
        of_device = "self" in case.was("flags") or case.was("master") == entry[2]
        owner = "self" if of_device else "master"
        more = [word for field in ("dst", "vlan") if case.was(field)
                for word in (field, case.was(field))]  # fmt: skip
        return [command("bridge", "fdb", "del", entry[1], "dev", entry[2], owner, *more)]
    match = re.fullmatch(rf"(proxy )?({ADDRESS}) dev ({DEVICE})", case.name)
    if match is None or not case.is_extra:
        return []
    proxy = ["proxy"] if match[1] else []
    return [command("ip", "neighbour", "del", *proxy, match[2], "dev", match[3])]


def of_nexthop(case: Case) -> Steps:
    """Return the command that deletes a next hop."""
    if not case.is_extra or not case.name.isdigit():
        return []
    return [command("ip", "nexthop", "del", "id", case.name)]


def of_queueing(case: Case) -> Steps:
    """Return the commands that delete disciplines of an interface that should have none."""
    if not case.is_extra or not re.fullmatch(DEVICE, case.name):
        return []
    places = {
        line.split()[0] if line.startswith(("clsact ", "ingress ")) else "root"
        for line in case.was("qdisc").splitlines()
    }
    return [command("tc", "qdisc", "del", "dev", case.name, place) for place in sorted(places)]


def of_policy(case: Case) -> Steps:
    """Return the command that deletes a policy of IPsec; of an association, the SPI is missing."""
    match = POLICY.fullmatch(case.name)
    if match is None or not case.is_extra or re.search(r"\b(mark|if_id)\b", case.was("settings")):
        return []
    words = ("src", match["src"], "dst", match["dst"], "dir", match["way"])
    return [command("ip", "xfrm", "policy", "del", *words)]


def of_namespace(case: Case) -> Steps:
    """Return the command that deletes a network namespace, or makes one."""
    return [command("ip", "netns", "del" if case.is_extra else "add", case.name)]


def of_firewall(case: Case) -> Steps:
    """Return the commands for a chain, set or table too many, and for rules of iptables."""
    table = re.fullmatch(r"table (\w+) (\S+)", case.name)
    if table is not None and case.is_extra:
        return [command("nft", "delete", "table", table[1], table[2])]
    inner = re.fullmatch(r"(\w+) (\S+) (chain|set|map) (\S+)", case.name)
    if inner is not None and case.is_extra:
        words = (inner[3], inner[1], inner[2], inner[4])
        # A chain with rules cannot be deleted (nft(8)).
        flush = [command("nft", "flush", *words)] if inner[3] == "chain" else []
        return [*flush, command("nft", "delete", *words)]
    chain = re.fullmatch(r"(.+) (\w+) (\S+)", case.name)
    if chain is not None and chain[1] in TABLES:
        try:
            return list(_of_chain(case, TABLES[chain[1]], chain[2], chain[3]))
        except ValueError:  # a quote that is not closed
            return []
    if case.name.startswith("ipset ") and case.is_extra:
        return [command("ipset", "destroy", case.name.removeprefix("ipset "))]
    return []


def _of_chain(case: Case, program: str, table: str, chain: str) -> Iterator[str]:
    start = (program, "-t", table)
    policy = case.was("policy")
    if case.is_extra and not policy:
        yield command(*start, "-F", chain)
        yield command(*start, "-X", chain)
        return
    now, wanted = (list(filter(None, text.split("\n"))) for text in
                   (case.was("rules"), case.should("rules")))  # fmt: skip
    extra = list(now)
    for rule in wanted:
        if rule not in extra:
            return  # where a missing rule belongs is not known
        extra.remove(rule)
    if [rule for rule in now if rule in wanted] != wanted or set(extra) & set(wanted):
        return
    wanted_policy = case.should("policy") or ("ACCEPT" if case.is_extra else "")
    if wanted_policy and policy != wanted_policy:
        yield command(*start, "-P", chain, wanted_policy)
    for rule in extra:
        # iptables-save(8) quotes as a shell does.
        yield command(*start, "-D", chain, *shlex.split(rule))
