"""Packet filters: the chains, sets and tables of nftables and iptables, and IPVS."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator
from contextlib import suppress

from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.netlink import GET_TABLES, NETFILTER, dump
from lockstep.node.fingerprint.pods import ordered
from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import exists, is_folder, text_of

EXCEPTIONS_OF_FIREWALL = (
    Exempt(
        "firewall",
        r".* (?:KUBE-(?:SEP|SVC|SVL|EXT|XLB|FW)-[A-Z0-9]{16}|cali-(?:tw|fw|pri|pro|pi|po)-.*"
        r"|CNI-[0-9a-f]{24}|CNI-DN-[0-9a-f]{20}\S*|NETAVARK-[0-9A-F]{8,}"
        r"|nv_[0-9a-f]{8}_\S+)(?: .*)?",
        WHOLE,
        "A container engine makes the chain for one service, pod or network on this node.",
    ),
    Exempt(
        "firewall",
        r".*\bf2b-\S+",
        "rules",
        "fail2ban adds the addresses that have tried to log in on this node.",
    ),
)
OF_A_CONTAINER = re.compile(
    r"-d \d[\d.]+/32 .*|.*--to-destination .*|-s (\d[\d.]+/32) -d \1 .*-j MASQUERADE"
    r"|ip daddr \d[\d.]+ .*|.*\bdnat to .*|ip saddr (\d[\d.]+) ip daddr \2 .*masquerade"
)
"""Rules that Docker adds to its chains and to POSTROUTING for the ports of one container."""
USER, ISOLATION = "-j DOCKER-USER", "-j DOCKER-ISOLATION-STAGE-1"
"""What Docker writes at the head of FORWARD. Which of them comes first depends on what it was doing
when it was restarted (seen with 26.1)."""
STATEFUL = re.compile(r"\bexpires [0-9dhms]+")


FAMILIES = {
    # Number in linux/netfilter.h: name in nft(8), name here, program.
    2: ("ip", "iptables IPv4", "iptables-nft-save"),
    10: ("ip6", "iptables IPv6", "ip6tables-nft-save"),
    3: ("arp", "arptables", "arptables-nft-save"),
    7: ("bridge", "ebtables", "ebtables-nft-save"),
}
TABLE = re.compile(r"^\*(\w+)", re.MULTILINE)


def read_firewall(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each chain, set and table; empty chains that accept are left out.

    The tables of iptables are read with its own program, which shows all of each match, whether
    nft is installed or not; it leaves out those that nft has written.
    """
    if _loaded("nf_tables"):
        present = tables()
        covered: set[str] = set()
        for number, (family, shown, program) in FAMILIES.items():
            if (present is None or number in present) and installed(program):
                text = commands.run(program)
                covered |= {f"table {family} {name}" for name in TABLE.findall(text)}
                yield from saved_objects(shown, text)
        if present != [] and installed("nft"):
            yield from nft_objects(commands.run("nft", "--stateless", "list", "ruleset"), covered)
    yield from _legacy(commands)
    yield from _balanced()
    if _loaded("ip_set") and installed("ipset"):
        yield from set_objects(commands.run("ipset", "save"))


def tables() -> list[int] | None:
    """Return the family of each table of nftables; None if the kernel does not say."""
    # struct nfgenmsg, here and in the answer; family 0 means all.
    found = dump(NETFILTER, GET_TABLES, bytes(4))
    return None if found is None else [message[0] for message in found if message]


def set_objects(text: str) -> Iterator[Entry]:
    """Yield the sets of ipset(8); entries with a timeout were added by a program."""
    sets: dict[str, Fields] = {}
    entries: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["create"]:
            sets[words[1]] = {"settings": " ".join(words[2:])}
        elif words[:1] == ["add"] and "timeout" not in words:
            entries.setdefault(words[1], []).append(" ".join(words[2:]))
    for name, fields in sets.items():
        yield Entry(
            f"ipset {name}", {**fields, "elements": "\n".join(sorted(entries.get(name, [])))}
        )


def _loaded(module: str) -> bool:
    """Return whether a module is there, so that no program loads it.

    A built-in one without parameters has no folder in /sys/module.
    """
    if not is_folder("/sys/module") or is_folder(f"/sys/module/{module}"):
        return True
    listed = text_of(f"/lib/modules/{os.uname().release}/modules.builtin", "")
    return f"/{module}.ko" in listed


def _legacy(commands: Commands) -> Iterator[Entry]:
    """Yield the chains of legacy iptables, whose tables these files name."""
    for family, names, program in (
        ("IPv4", "/proc/net/ip_tables_names", "iptables-legacy-save"),
        ("IPv6", "/proc/net/ip6_tables_names", "ip6tables-legacy-save"),
    ):
        if exists(names) and text_of(names).strip():
            with suppress(Unread):  # a kernel has tables, and nobody has installed the program
                yield from saved_objects(f"legacy iptables {family}", commands.run(program))


def _balanced() -> Iterator[Entry]:
    """Yield the services of IPVS; weights are configured, connections are counted."""
    service, fields = "", {}
    for line in [*text_of("/proc/net/ip_vs", "").splitlines()[3:], ""]:
        words = line.split()
        if line.startswith("  ->") and len(words) > 3:
            fields[_endpoint(words[1])] = f"{words[2]}, weight {words[3]}"
            continue
        if service:
            yield Entry(service, fields)
        service = f"IPVS {words[0]} {_endpoint(words[1])}" if len(words) > 1 else ""
        fields = {"scheduler": " ".join(words[2:])} if service else {}


def _endpoint(text: str) -> str:
    address, _, port = text.rpartition(":")
    if re.fullmatch("[0-9A-F]{8}", address):
        address = ".".join(str(int(address[at : at + 2], 16)) for at in range(0, 8, 2))
    return f"{address}:{int(port, 16)}" if port else text


def without_counters(line: str) -> str:
    """Return a rule without packet and byte counts, expiry and handle."""
    line = re.sub(r"\bpackets \d+ bytes \d+", "", line)
    line = re.sub(r"\s*# handle \d+", "", line)
    return " ".join(STATEFUL.sub("", line).split())


def nft_objects(text: str, covered: Container[str] = ()) -> Iterator[Entry]:
    """Yield the objects of a ruleset (nft(8)): a table, and each thing in its braces.

    Args:
        text: the ruleset.
        covered: tables that are left out.
    """
    table = ""
    inner: list[str] = []
    name, depth = "", 0
    flags: list[str] = []
    pending: list[Entry] = []
    for raw in text.splitlines():
        line = without_counters(raw)
        if not line or line.startswith("#"):
            continue
        opened, closed = _braces(line)
        if depth == 0 and line.startswith("table "):
            table, flags, pending, depth = line.rstrip(" {"), [], [], 1
        elif depth == 1 and line == "}":
            if (pending or flags) and table not in covered:
                yield Entry(table, {"flags": ", ".join(flags)})
                yield from pending
            depth = 0
        elif depth == 1 and opened > closed:
            name, inner, depth = line[: line.rindex("{")].strip(), [], 1 + opened - closed
        elif depth == 1:
            flags.append(line)
        else:
            depth += opened - closed
            if depth > 1:
                inner.append(line)
                continue
            fields = _block(name, inner)
            if _counts(name, fields):
                pending.append(Entry(f"{table[6:]} {name}", fields))


def _braces(line: str) -> tuple[int, int]:
    """Return the number of opening and closing braces outside of quotes."""
    bare = re.sub(r'"[^"]*"', "", line)
    return bare.count("{"), bare.count("}")


def _counts(name: str, fields: Fields) -> bool:
    """Return whether a thing has an effect: a chain of a hook without rules that accepts has none.

    Programs create such chains, and leave them when they take their rules away.
    """
    empty = name.startswith("chain ") and not fields["rules"]
    return not (empty and "policy accept" in fields.get("hook", ""))


def _block(name: str, lines: list[str]) -> Fields:
    """Return the fields of a chain, in whose rules the order counts, or of a set."""
    if name.startswith("chain "):
        hooks = [line for line in lines if re.match(r"type \w+ hook ", line)]
        rules = lasting(name[6:], [line for line in lines if line not in hooks])
        fields = {"hook": "\n".join(hooks)} if hooks else {}
        return {**fields, "rules": "\n".join(rules)}
    text = " ".join(lines)
    match = re.search(r"elements = \{(.*)\}", text)
    if not match:
        return {"settings": text}
    elements = sorted(one.strip() for one in match.group(1).split(","))
    # Elements of a dynamic set were added by packets, not by an operator.
    settings = text[: match.start()].strip()
    dynamic = "dynamic" in settings or "timeout" in settings
    return {"settings": settings, **({} if dynamic else {"elements": ", ".join(elements)})}


def lasting(chain: str, rules: list[str]) -> list[str]:
    """Return the rules of a chain without those of one container."""
    if chain not in ("DOCKER", "POSTROUTING"):
        return ordered(chain, rules)
    return [rule for rule in rules if not OF_A_CONTAINER.fullmatch(rule)]


def of_docker_first(rules: list[str], of_user: list[str]) -> list[str]:
    """Return the rules of FORWARD with Docker's first two in one order.

    Their order counts only if DOCKER-USER, which is the administrator's, has rules.
    """
    if sorted(rules[:2]) != [ISOLATION, USER] or of_user not in ([], ["-j RETURN"]):
        return rules
    return [USER, ISOLATION, *rules[2:]]


def saved_objects(kind: str, text: str) -> Iterator[Entry]:
    """Yield the chains of iptables-save(8); its kin write no COMMIT behind a table.

    ``iptables -A`` and ``-D`` leave a table with nothing but empty chains that accept, which does
    not filter; such chains are left out.
    """
    table = ""
    policies: dict[tuple[str, str], str] = {}
    rules: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy = line[1:].split()[:2]
            policies[table, chain] = policy
        elif line.startswith("-A "):
            chain = line.split()[1]
            rules.setdefault((table, chain), []).append(re.sub(r"^-A \S+ ", "", line))
    for (table, chain), policy in sorted(policies.items()):
        here = rules.get((table, chain), [])
        if chain == "FORWARD":
            here = of_docker_first(here, rules.get((table, "DOCKER-USER"), []))
        if here or policy != "ACCEPT":
            fields = {"rules": "\n".join(lasting(chain, here))}
            if policy != "-":
                fields["policy"] = policy
            yield Entry(f"{kind} {table} {chain}", fields)


FIREWALL: tuple[Domain, ...] = (Domain("firewall", read_firewall),)
