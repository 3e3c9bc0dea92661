"""Drafts a description from the records of running nodes, for a person to confirm.

Each value has a comment with the nodes that it was found on. What could not be found is a text that
begins with TODO, which Lockstep's reader refuses. A draft decides nothing: a value that is wrong on
all nodes is wrong in it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lockstep.describe import groups, machines, scheduler, software, system, text
from lockstep.describe.networks import Networks
from lockstep.describe.seen import Seen
from lockstep.describe.values import (
    TODO,
    Block,
    Value,
    agreed,
    checked,
    named,
    plain,
    table,
    todo,
    todos,
)
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.report import alike, count
from lockstep.roles import declared
from lockstep.spec import load
from lockstep.spec.model import FORMAT, Access, Cluster
from lockstep.spec.validate import every_package


@dataclass(frozen=True)
class Draft:
    """A draft of a description."""

    text: str
    """The inventory file."""
    description: Mapping[str, Any]
    """The description in it."""
    nodes: int
    classes: int
    groups: int
    todos: int
    """Values that a person must fill in."""
    problems: tuple[str, ...]
    """What the reader refuses beside them, one line each."""
    lost: Mapping[str, str]
    """Host that the draft leaves out -> the reason."""


def draft(reading: Reading, access: Mapping[str, object], command: str, day: str) -> Draft:
    """Return a draft of the description of some hosts, of which one was read at least.

    Args:
        reading: host -> its record (``lockstep.node.describe``), or the reason why it has none.
        access: fields of ``access``, of which some have a comment of their own.
        command: the command that reads the hosts, for the comment at the beginning.
        day: the day on which they were read, for the same comment.
    """
    nodes, lost = _nodes(reading)
    networks, conf = Networks(nodes), scheduler.SlurmConf(nodes)
    roles = groups.Roles(nodes, conf)
    workers = [one for one in nodes if roles.is_worker(one)]
    heads = [one for one in nodes if not roles.is_worker(one)]
    every = machines.classes(nodes, networks)
    parts: dict[Any, Value | Block] = {"format": Value(FORMAT), "name": conf.name()}
    if domain := _domain(nodes):
        parts["domain"] = domain
    parts["networks"] = networks.block()
    parts["hardware"] = table({one.name: machines.block(one, every, networks) for one in every})
    releases = {one.host: system.release(one) for one in nodes}
    parts["nodes"] = groups.block(every, networks, roles, releases, system.usual(nodes))
    parts["os"] = system.block(nodes, networks)
    parts["access"] = _access(nodes, access)
    if clock := system.clock(nodes, heads):
        parts["time"] = clock
    if jobs := scheduler.block(conf, [one.name for one in workers]):
        parts["scheduler"] = jobs
    parts["unmanaged"] = Value(
        ["all"],
        above=(
            "Lockstep checks the nodes and changes nothing on them. docs/existing-clusters.md says "
            "how it takes over one role after another.",
        ),
    )
    versions = software.block(nodes, workers, lambda release: every_package(release, declared()))
    if versions.parts:
        parts["software"] = versions
    whole = table(parts, *roles.others())
    description = plain(whole)
    problems = tuple(_problems(description))
    head = [*_head(nodes, lost, command, day), *_list(problems)]
    return Draft(
        text=text.inventory(whole, head, _groups(bool(heads), bool(workers))),
        description=description,
        nodes=len(nodes),
        classes=len(every),
        groups=len(description["nodes"]),
        todos=todos(whole),
        problems=problems,
        lost=lost,
    )


def _nodes(reading: Reading) -> tuple[list[Seen], dict[str, str]]:
    """Return the nodes that were read, and the other hosts with the reason."""
    lost = {host: got.reason for host, got in reading.items() if isinstance(got, Unreachable)}
    by_address: dict[str, Seen] = {}
    for host, got in reading.items():
        if isinstance(got, Record):
            one = Seen(host, got)
            first = by_address.setdefault(str(one.get("describe.reached_at") or host), one)
            if first is not one:
                lost[host] = f"it is the machine that was also given as {first.host}"
    nodes: list[Seen] = []
    for same in alike(by_address.values(), lambda one: one.name).values():
        nodes += same if len(same) == 1 else _renamed(same, lost)
    return sorted(nodes, key=lambda one: one.order), lost


def _renamed(same: Sequence[Seen], lost: dict[str, str]) -> list[Seen]:
    """Return machines that have one host name, under the names that the user gave for them."""
    found = []
    for one in same:
        if re.fullmatch(r"[0-9.]+|.*:.*", one.host):
            lost[one.host] = (
                f"its host name is {one.name}, as that of other hosts; give it by a name instead "
                "of an address, or set its host name"
            )
        else:
            found.append(replace(one, named=one.host))
    return found


def _access(nodes: Sequence[Seen], given: Mapping[str, object]) -> Block:
    """Return how the hosts were reached."""
    parts: dict[Any, Value | Block] = {
        name: value if isinstance(value, Value) else Value(value, "as given on the command line")
        for name, value in given.items()
    }
    login = agreed(nodes, lambda one: one.get("describe.login"))
    if "user" not in parts:
        parts["user"] = (
            checked(Access, "user", Value(*login), "account") if login else todo("account")
        )
    return table(parts)


def _domain(nodes: Sequence[Seen]) -> Value | None:
    """Return the DNS domain of the nodes; None if no node says one."""
    got = agreed(nodes, _own_domain)
    return checked(Cluster, "domain", Value(*got), "DNS domain") if got else None


def _own_domain(one: Seen) -> str | None:
    if "." in one.full_name:
        return one.full_name.partition(".")[2]
    known = [name for name in one.items("hosts.entries") if name.startswith(f"{one.name}.")]
    return known[0].partition(".")[2] if len(known) == 1 else None


def _problems(description: Mapping[str, Any]) -> list[str]:
    """Return what the reader refuses, except for the values that a person must fill in."""
    _, found = load(description, declared())
    return [
        f"{one.where('').strip()}: {one.value}; expected: {one.allowed}"
        for one in found
        if TODO not in one.value
    ]


def _head(nodes: Sequence[Seen], lost: Mapping[str, str], command: str, day: str) -> list[str]:
    reasons = alike(lost, lost.__getitem__)
    return [
        f"A draft of {day}: {command}",
        f"from {count(len(nodes), 'node')}: {named(nodes)}",
        *(f"not read: {', '.join(hosts)}: {reason}" for reason, hosts in reasons.items()),
        "",
        "The comment of a value says where it was found. Compare each value with what you ordered",
        f'and configured. Replace each text that begins with "{TODO}": Lockstep refuses it.',
        "What is not here (sysctls, files, other packages) is compared between the nodes.",
    ]


def _list(problems: Sequence[str]) -> list[str]:
    if not problems:
        return []
    return [
        "",
        f"{TODO}: Lockstep refuses these values as well:",
        *(f"- {one}" for one in problems),
    ]


def _groups(heads: bool, workers: bool) -> list[str]:
    return [*(["head"] if heads else []), *(["worker"] if workers else [])]
