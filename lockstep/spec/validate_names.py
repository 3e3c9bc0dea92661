"""Validates the names of nodes and partitions, and how many nodes there are."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence

from lockstep.nearest import one_of
from lockstep.report import alike, fold
from lockstep.spec import names
from lockstep.spec.model import Cluster
from lockstep.spec.problem import Problem

RESERVED = {
    **dict.fromkeys(
        ("localhost", "ip6-localhost", "ip6-loopback"), "every node has this name for itself"
    ),
    **dict.fromkeys(("ip6-allnodes", "ip6-allrouters"), "/etc/hosts has it for multicast"),
    "default": "in slurm.conf, it sets the defaults of the lines that follow",
    "all": "in slurm.conf and in pyinfra, it stands for all nodes",
}
"""Name that no node may have, in lower case -> the reason.

Sources: hosts(5) as Debian installs it; slurm.conf(5), NODE CONFIGURATION ("DEFAULT") and PARTITION
CONFIGURATION (Nodes: "ALL"); pyinfra, docs/inventory-data: the group "all".
"""


def too_many(cluster: Cluster) -> list[Problem]:
    """Return the problem of more nodes than Lockstep works with, without naming each of them."""
    count = sum(names.most(group.name) for group in cluster.nodes)
    if count <= names.MOST:
        return []
    return [Problem(("nodes",), f"{count:,} nodes", f"at most {names.MOST:,} nodes in a cluster")]


def name_problems(cluster: Cluster) -> Iterator[Problem]:
    """Find nodes with a name that another node has, or that programs read in another way."""
    first: dict[str, int] = {}
    for index, group in enumerate(cluster.nodes):
        expanded = names.expand(group.name)
        for name in expanded:
            why = RESERVED.get(name.lower()) or _as_address(name)
            if why:
                yield Problem(("nodes", index, "name"), name, f"another name: {why}", node=name)
        # DNS and /etc/hosts do not distinguish upper and lower case.
        twice = (name for name in expanded if name.lower() in first)
        for before, again in alike(twice, lambda name: first[name.lower()]).items():
            yield Problem(
                ("nodes", index, "name"),
                fold(again),
                f"unique names; nodes[{before}] already uses {'them' if len(again) > 1 else 'it'}",
                node=fold(again),
            )
        for name in expanded:
            first.setdefault(name.lower(), index)


def unknown_roles(
    path: tuple[str | int, ...], given: Iterable[str], known: Sequence[str], node: str = ""
) -> Iterator[Problem]:
    """Find names in a list of roles that no role has; name the nearest role first."""
    for index, name in enumerate(given):
        if name not in known:
            yield Problem((*path, index), repr(name), one_of(name, known), node)


def _as_address(name: str) -> str:
    """Return why a name is an address; "" if it is not."""
    try:
        socket.inet_aton(name)
    except OSError:
        return ""
    return "programs read it as a number, which is an IPv4 address (inet(3))"
