"""The repair of a cause with its consequences: one command that leaves none of them.

A folder can only be removed after the files below it, and a unit must be stopped and disabled while
its file is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lockstep.checks.fingerprint.reverting.case import command

RELOAD = "systemctl daemon-reload"
STOPPED = re.compile(r"systemctl (?:disable|stop|reset-failed) (?:--now )?(?P<unit>\S+)")
RESTARTED = re.compile(r"systemctl (?:restart|start) \S+")
LINK = re.compile(r"/etc/systemd/(?:system|user)/[^/]+\.(?:wants|requires|upholds)/(?P<unit>[^/]+)")
BY_HAND = "find out what created {name}, then remove {name}"
FILES = 30
"""At most so many files are named in one command."""


class Member(NamedTuple):
    """One difference of a cause and its consequences, and its own repair."""

    domain: str
    name: str
    text: str


def together(node: str, members: Sequence[Member]) -> str:
    """Return the repair of the first member that also reverts the others, "" if its own does.

    Args:
        node: the node, with which the text of a repair begins.
        members: the cause, and its consequences on the same node.
    """
    first, *others = members
    start = f"on {node}: "
    own = {one.name: one.text.removeprefix(start) for one in members if one.domain == "file"}
    if first.domain != "file" or not others or not first.text.startswith(start):
        return ""
    if not any(own[first.name].startswith(word) for word in ("rm ", "rmdir ", "chattr ")):
        return ""
    stopped = list(_stopped(start, others))
    units = {unit for unit, _ in stopped if unit}
    removed: list[str] = []
    folders: list[str] = []
    unlocked: list[str] = []
    more: list[str] = []
    for name, text in own.items():
        link = LINK.fullmatch(name)
        if link is not None and link["unit"] in units and name != first.name:
            continue  # systemctl(1) disable removes it
        kept = text.removesuffix(f" && {RELOAD}")
        if kept.endswith(command("rmdir", name)):
            folders.append(name)
            unlocked.append(kept.removesuffix(command("rmdir", name)))
        elif kept.endswith(command("rm", name)):
            removed.append(name)
            unlocked.append(kept.removesuffix(command("rm", name)))
        elif kept.startswith(("rm ", "rmdir ", "chattr ")):
            more.append(kept)
        elif name.startswith(f"{first.name}/"):
            return start + BY_HAND.format(name=first.name)
    if len(removed) > FILES:
        return start + BY_HAND.format(name=first.name)
    # A folder whose attributes lock it keeps the files below it, and the links of units.
    steps = [text.removesuffix(" && ") for text in unlocked if text]
    steps += [text for _, text in stopped]
    steps += more
    steps += [command("rm", *removed)] if removed else []
    folders.sort(key=lambda name: (-name.count("/"), name))
    steps += [command("rmdir", *folders)] if folders else []
    if any("/systemd/" in name for name in (*removed, *folders)):
        steps.append(RELOAD)
        steps += _restarted(start, others, units)
    return start + " && ".join(steps)


def _stopped(start: str, others: Iterable[Member]) -> Iterable[tuple[str, str]]:
    """Yield the units that only this node has, and the commands that stop and disable them."""
    seen: set[str] = set()
    for one in others:
        text = one.text.removeprefix(start)
        match = STOPPED.fullmatch(text) if one.domain in ("unit", "timer", "running") else None
        if match is not None and match["unit"] not in seen:
            seen.add(match["unit"])
            yield match["unit"], text


def _restarted(start: str, others: Iterable[Member], stopped: set[str]) -> list[str]:
    """Return the commands with which services run without what their removed files set."""
    texts = (one.text.removeprefix(start) for one in others if one.domain == "process")
    return [
        text
        for text in dict.fromkeys(texts)
        if RESTARTED.fullmatch(text) and text.split()[-1] not in stopped
    ]
