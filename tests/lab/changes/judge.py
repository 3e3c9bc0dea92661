"""What findings say of the changes that were made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from tests.lab.changes import Change
from tests.lab.changes.rounds import Round

Finding = Mapping[str, Any]
Key = tuple[str, str, str]
GOOD = frozenset({"found", "cause", "rule"})
"""Words for a change whose node is named, and the right value."""
RULES = "fingerprint."


@dataclass(frozen=True)
class Outcome:
    """What the check said of one change."""

    change: Change
    node: str
    word: str
    """found (the object is named); cause (it is named in the finding of its cause); rule (a rule
    explains it); side (nobody knows which node is right); missed; blamed (a finding about another
    node); stays (a finding is left after the undo); failed (the change could not be made)."""
    text: str
    by: str = ""
    """The source of the right value, as the finding names it."""
    alone: bool = False
    """Whether no other change was made at the same time."""
    findings: tuple[Finding, ...] = field(default=(), compare=False)
    """The findings about the change."""

    @property
    def is_good(self) -> bool:
        """Whether the node, the object and the right value were named."""
        return self.word in GOOD

    @override
    def __str__(self) -> str:
        """Return one line about the change, whole."""
        one = self.change
        return f"{self.word:6} {one.domain:9} {self.node} {one.object} | {one.name} | {self.text}"


def key(finding: Finding) -> Key:
    """Return what a finding is about."""
    return finding["rule"], finding["node"], finding["device"]


def names(finding: Finding, change: Change) -> bool:
    """Return whether a finding names the object of a change as its own."""
    device: str = finding["device"]
    # A rule about what runs names the sysctl or the mount alone.
    own = (change.object, change.object.removeprefix("sysctl ").removeprefix("mount "))
    return any(name in (device, *device.split(", ")) for name in own)


def shown(findings: Iterable[Finding]) -> str:
    """Return findings in one line."""
    return "; ".join(
        f"{one['rule']} {one['node']} {one['device']}: {one['found']}" for one in findings
    )


def judged(change: Change, node: str, made: Round, new: Collection[Finding]) -> Outcome:
    """Return what the check said of one change of a round.

    Args:
        change: the change.
        node: the node on which it was made.
        made: all changes of the round.
        new: the findings that were not there before any change.
    """
    own = [one for one in new if one["node"] == node]
    others = [other for some in made.values() for other in some if other is not change]
    foreign = [
        one
        for one in new
        if one["node"] not in made or (one["node"] != node and names(one, change))
    ]
    named = [one for one in own if names(one, change)]
    inside = [one for one in own if change.object in one["detail"]]
    # A finding that names another change of this node is about that one.
    rest = [one for one in own if not any(names(one, other) for other in others)]
    found = named or inside or (rest if len(made[node]) == 1 else [])
    text = shown([*foreign, *(found or own)])
    by = found[0]["reference"].partition(" (")[0] if found else ""
    if foreign:
        word, by = "blamed", ""
    elif not found:
        word = "missed"
    elif any(one["status"] != "differs" or not one["expected"] for one in found):
        word, by = "side", ""
    elif named and named[0]["rule"].startswith(RULES):
        word = "found"
    else:
        word = "cause" if inside and not named else "rule"
    return Outcome(change, node, word, text, by, findings=tuple(found))


def left(before: Collection[Finding], now: Collection[Finding], made: Round) -> list[Finding]:
    """Return the findings of the round before that are there still.

    Args:
        before: the findings of the round before, whose changes were undone.
        now: the findings now.
        made: the changes of this round.
    """
    old = {key(one) for one in before}
    return [
        one
        for one in now
        if key(one) in old and not any(names(one, change) for change in made.get(one["node"], ()))
    ]
