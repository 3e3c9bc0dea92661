"""Rounds of changes: different changes on several nodes, which one check judges.

A majority still decides each of them, if no other node of the round has a change of the same
object. So changes of a round differ in their domains and in the files and units that they touch.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.lab.changes import Change

Round = Mapping[str, tuple[Change, ...]]
"""Node -> the changes that are made on it."""

PATH = re.compile(r"(?<![\w.])/(?:etc|home|opt|proc|root|run|srv|sys|usr|var)/[\w./@+-]*[\w@+-]")
UNIT = re.compile(r"[\w@-]+\.(?:service|socket|timer|target|path|mount|slice)\b")
INTERFACE = re.compile(r"\b(?:fabric0|mgmt0|docker0)\b")
KEPT = re.compile(r"/(?:run|root)/(?:kept|seed|saved|fstab).*|/sys/module.*")
"""Where changes keep what they put back: each node has its own, and no check reads it."""
OF_UNITS = re.compile(r"systemctl|systemd|loginctl|timedatectl")
FOLDER = re.compile(r"(?<![\w.])/(?:mnt|opt|srv)\b|/etc/fstab")
"""Places on which some changes mount something, which hides what others make below."""
TOOLS = re.compile(r"/usr/s?bin/.*")


def touched(change: Change) -> frozenset[str]:
    """Return the files and units that a change touches, and its object."""
    text = f"{change.script}\n{change.undo}"
    names = {*PATH.findall(text), *UNIT.findall(text), change.object}
    return frozenset(name for name in names if not KEPT.fullmatch(name) and not _is_tool(name))


def used(change: Change) -> frozenset[str]:
    """Return what two changes on one node cannot share."""
    text = f"{change.script}\n{change.undo}"
    return touched(change) | {*PATH.findall(text), *INTERFACE.findall(text)}


def _is_tool(name: str) -> bool:
    return TOOLS.fullmatch(name) is not None


def packed(changes: Iterable[Change], nodes: Sequence[str], at_once: int) -> list[Round]:
    """Return rounds of many changes on each node, also of one domain, each of another object.

    A node has at most one change of units, and one of accounts, because commands such as
    ``systemctl daemon-reload`` reach all of them.

    Args:
        changes: the changes.
        nodes: the nodes on which they are made, beside those that a change names.
        at_once: how many are made on each node at once.
    """
    planned: list[dict[str, list[Change]]] = []
    for change in changes:
        own = _reached(change)
        for number, made in enumerate((*planned, None)):
            if made is None:
                made = {}
                planned.append(made)
            every = [other for some in made.values() for other in some]
            if any(_is_apart(other) or _is_apart(change) for other in every):
                continue
            if any(touched(change) & touched(other) for other in every):
                continue
            names = [change.node] if change.node else [
                nodes[(at + number) % len(nodes)] for at in range(len(nodes))
            ]  # fmt: skip
            names.sort(key=lambda name: len(made.get(name, ())))
            room = (name for name in names if len(made.get(name, ())) < at_once)
            free = (
                name
                for name in room
                if not any(own & _reached(other) for other in made.get(name, ()))
            )
            if name := next(free, ""):
                made.setdefault(name, []).append(change)
                break
    return [{name: tuple(some) for name, some in made.items()} for made in planned]


def _is_apart(change: Change) -> bool:
    """Return whether a change, or making it, reverts others or reaches other nodes."""
    return change.apart or "scontrol reconfigure" in change.script


def _reached(change: Change) -> frozenset[str]:
    """Return what no other change on the same node may reach."""
    text = f"{change.script}\n{change.undo}"
    shared = {
        "units": OF_UNITS.search(text) is not None,
        "mounts": "mount" in text and "bind mount" not in change.name,
        "accounts": change.domain in ("user", "group"),
        "dpkg": change.domain == "package",
    }
    return (
        used(change)
        | {name for name, reached in shared.items() if reached}
        | frozenset(FOLDER.findall(f"{text}\n{change.object}"))
    )


def rounds(changes: Iterable[Change], nodes: Sequence[str], together: int = 1) -> Iterator[Round]:
    """Yield rounds until each change had its turn.

    Args:
        changes: the changes.
        nodes: the nodes on which they are made.
        together: how many are made on each node at once.
    """
    left: dict[str, deque[Change]] = {}
    for change in changes:
        if change.node:  # such as the head, which has no peers
            yield {change.node: (change,)}
            yield {}
            continue
        left.setdefault(change.domain, deque()).append(change)
    before: frozenset[str] = frozenset()
    number = 0
    while left:
        made: dict[str, list[Change]] = {node: [] for node in nodes}
        taken: set[str] = set()
        # Domains with many changes come first, so that no long rest of one domain is left.
        for domain, _ in Counter({name: len(rest) for name, rest in left.items()}).most_common():
            room = [node for node in nodes if len(made[node]) < together]
            if not room:
                break
            # The nodes take turns, and a round of one change is not always on the same.
            room.sort(key=lambda node: (len(made[node]), (nodes.index(node) - number) % len(nodes)))
            for change, node in ((one, node) for one in left[domain] for node in room):
                names = touched(change)
                shared = frozenset().union(*map(used, made[node]))
                if not names & (taken | before) and not used(change) & shared:
                    made[node].append(change)
                    taken |= names
                    left[domain].remove(change)
                    break
        left = {domain: rest for domain, rest in left.items() if rest}
        before, number = frozenset(taken), number + 1
        yield {node: tuple(some) for node, some in made.items() if some}
