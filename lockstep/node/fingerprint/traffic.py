"""Queueing disciplines and IPsec, which ip(8) and tc(8) show as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.interfaces import NET, without_containers
from lockstep.node.fingerprint.netlink import GET_POLICIES, GET_STATES, XFRM, dump, present
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import is_folder


def read_transformations(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each IPsec policy and security association, without keys and counters."""
    if not present(XFRM):
        return
    entries: dict[str, Fields] = {}
    for kind, message in (("policy", GET_POLICIES), ("state", GET_STATES)):
        if dump(XFRM, message) == []:
            continue
        text = commands.run("ip", "xfrm", kind)
        for block in re.split(r"^(?=src )", text, flags=re.MULTILINE):
            first, *rest = [" ".join(line.split()) for line in block.strip().splitlines()] or [""]
            if not first:
                continue
            lines = [
                re.sub(r"\s(?:spi|reqid|index|seq) \S+", "", line.strip())
                for line in rest
                if not re.match(r"\s*(?:lifetime|anti-replay|lastused|enc|auth|aead|comp)", line)
            ]
            keyed = re.findall(r"^\s*((?:enc|auth(?:-trunc)?|aead) \S+)", block, re.MULTILINE)
            words = lines[0].split() if lines else []
            # One pair of hosts has policies for several directions.
            way = f" {' '.join(words[:2])}" if words else ""
            entries[f"{kind} {first}{way}"] = {"settings": "\n".join([*lines, *sorted(keyed)])}
    for name, fields in sorted(entries.items()):
        yield Entry(name, fields)


def read_queueing(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each interface with queueing disciplines other than noqueue (tc(8))."""
    if not is_folder(NET):
        raise Unread(f"{NET}: no such folder")
    found: dict[str, list[str]] = {}
    classful: dict[str, set[str]] = {}
    text = commands.run("tc", "-details", "qdisc", "show")
    for line in text.splitlines():
        match = re.match(r"qdisc (\S+) (\S+): dev (\S+) (.*)", line)
        if not match or match.group(1) == "noqueue":
            continue
        kind, handle, name, rest = match.groups()
        rest = re.sub(r"\s*\brefcnt \d+|\bdirect_packets_stat \d+|\bver \S+", "", rest).strip()
        if kind in ("ingress", "clsact") or kind in CLASSFUL:
            classful.setdefault(name, set()).add(kind)
        rest = re.sub(r"^parent :[0-9a-f]+", "of one queue", rest)
        # The kernel numbers disciplines without a handle from 8000 (net/sched/sch_api.c).
        shown = "" if re.fullmatch(r"8[0-9a-f]{3}|0", handle) else f" {handle}:"
        found.setdefault(name, []).append(f"{kind}{shown} {rest}")
    for name in without_containers(found):
        kinds = found[name]
        lines = [
            f"{line} x{kinds.count(line)}" if kinds.count(line) > 1 else line
            for line in sorted(set(kinds))
        ]
        fields = {"qdisc": "\n".join(lines)}
        if classful.get(name, set()) - {"ingress", "clsact"}:
            fields["class"] = _shown(commands, "class", name)
            fields["filter"] = _shown(commands, "filter", name)
        if classful.get(name, set()) & {"ingress", "clsact"}:
            fields["filter_ingress"] = _shown(commands, "filter", name, "ingress")
        if "clsact" in classful.get(name, ()):
            fields["filter_egress"] = _shown(commands, "filter", name, "egress")
        yield Entry(name, {key: value for key, value in fields.items() if value})


CLASSFUL = frozenset({"htb", "hfsc", "prio", "drr", "qfq", "cbq", "ets", "multiq", "taprio"})


def _shown(commands: Commands, kind: str, name: str, *parent: str) -> str:
    """Return classes or filters; actions have counters of references and times."""
    text = commands.run("tc", "-details", kind, "show", "dev", name, *parent)
    text = re.sub(r"\b(?:index|ref|bind|installed|used|firstused) \d+\b( sec)?", "", text)
    text = re.sub(r"\b(?:not_)?in_hw(?:_count \d+)?\b", "", text)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(filter(None, sorted(lines) if kind == "class" else lines))


TRAFFIC: tuple[Domain, ...] = (
    Domain("xfrm", read_transformations),
    Domain("tc", read_queueing),
)
