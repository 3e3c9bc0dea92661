"""Which findings of nodes are new since a deploy began."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from lockstep.report import fold
from lockstep.roles.steps.comparison import CHECK_EVERY_S, SETTLE_S
from lockstep.roles.steps.reboot.objections import PENDING, against, check, stay
from lockstep.spec.names import expand

Findings = list[dict[str, Any]]
Place = tuple[str, str, str, str]


class Verdict:
    """The findings of the nodes before a deploy, and those that it brings."""

    def __init__(self, inventory: str) -> None:
        """Store the path of the inventory."""
        self._inventory = inventory
        self._before: frozenset[Place] = frozenset()

    def begin(self, names: Collection[str]) -> None:
        """Note the findings of the nodes; they do not stop the deploy.

        Raises:
            Unanswered: the check itself failed.
        """
        self._before = frozenset(_places(check(self._inventory, fold(names))))

    def new(self, names: Collection[str]) -> Mapping[str, Findings]:
        """Return the findings that nodes did not have before, for each node that has some.

        Notices do not count, nor do differences that a reboot resolves, or of which nobody knows
        the right side. Findings of services that have just started have ``SETTLE_S`` to go away.

        Raises:
            Unanswered: the check itself failed.
        """
        ends = time.monotonic() + SETTLE_S
        found = self._now(names)
        while found and time.monotonic() < ends:
            shown = _keys(found)
            time.sleep(CHECK_EVERY_S)
            found = self._now(names)
            every = [finding for findings in found.values() for finding in findings]
            if _keys(found) == shown and stay(every):
                break
        return found

    def _now(self, names: Collection[str]) -> dict[str, Findings]:
        every = check(self._inventory, fold(names))
        found = {name: [*self._counting(every, name)] for name in sorted(names)}
        return {name: findings for name, findings in found.items() if findings}

    def _counting(self, findings: Findings, name: str) -> Iterator[dict[str, Any]]:
        for finding in against(findings, name):
            if finding["status"] != PENDING and _place(finding, name) not in self._before:
                yield finding


def _keys(found: Mapping[str, Findings]) -> frozenset[Place]:
    return frozenset(_place(one, name) for name, findings in found.items() for one in findings)


def _places(findings: Iterable[dict[str, Any]]) -> Iterator[Place]:
    for finding in findings:
        for name in expand(finding["node"]):
            yield _place(finding, name)


def _place(finding: dict[str, Any], name: str) -> Place:
    """Return the key by which a finding of a node is recognized in a later check.

    A deploy is to repair a finding that names roles. If it leaves another value, that is a new
    finding. Other values may vary by themselves, so they are no part of the key.
    """
    value = str(finding["found"]) if finding["roles"] else ""
    return finding["rule"], name, finding["device"], value
