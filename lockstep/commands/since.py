"""``lockstep since INVENTORY NODE [DOMAIN]``: when the configuration of a node has changed."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from lockstep.checks.fingerprint.objects import shown
from lockstep.checks.rules.fingerprint import DOMAINS
from lockstep.commands import (
    INVENTORY,
    JSON,
    Argument,
    Command,
    WrongUse,
    node_named,
    require_writable,
    show,
)
from lockstep.history import fingerprints, store
from lockstep.inventory import load
from lockstep.probe.versions import Version
from lockstep.reading import history_of
from lockstep.report import ExitStatus, alike, count
from lockstep.when import between, utc

NAMED = 5
"""At most so many objects are named."""


@dataclass(frozen=True)
class Change:
    """One domain that has changed between two checks."""

    after: float
    """Unix time of the last check before the change."""
    until: float
    """Unix time of the first check after it."""
    domain: str
    more: int
    """By how many objects the domain has more than before."""
    objects: tuple[str, ...]
    """Those of the changed objects whose names are known: the ones with an identity of the node."""

    @property
    def text(self) -> str:
        """Return the domain and what is known of the change."""
        number = f"{count(abs(self.more), 'object')} {'more' if self.more > 0 else 'fewer'}"
        named = [*self.objects[:NAMED], *(["..."] if len(self.objects) > NAMED else [])]
        known = [*([number] if self.more else []), *named]
        return f"{self.domain} ({', '.join(known)})" if known else self.domain


def _run(arguments: argparse.Namespace) -> int:
    require_writable(arguments, "json")
    plan = load(arguments.inventory)
    node, domain = node_named(plan, arguments.node).name, arguments.domain
    if domain is not None and domain not in DOMAINS:
        raise WrongUse(f"unknown domain {domain!r}\n  expected  {', '.join(DOMAINS)}")
    with store.opened(history_of(plan)) as history:
        kept = fingerprints.kept(history, node)
        changes = _changes(history, node, domain)
    if kept is None:
        raise WrongUse(
            f"no fingerprint of {node} is saved\n  next      lockstep check {arguments.inventory}"
        )

    def document() -> dict[str, object]:
        return {
            "format": 1,
            "node": node,
            "first": kept[0],
            "last": kept[1],
            "changes": [asdict(change) for change in changes],
        }

    show(arguments.json, document, lambda: _text(node, kept, changes))
    return ExitStatus.CONSISTENT


def _changes(history: sqlite3.Connection, node: str, domain: str | None) -> list[Change]:
    """Return the changes of all domains, or of one, the newest first."""
    found = [
        change
        for name in fingerprints.domains(history, node)
        if domain in (None, shown(name))
        for change in _of_domain(name, fingerprints.versions(history, node, name))
    ]
    return sorted(found, key=lambda change: (-change.until, -change.after, change.domain))


def _of_domain(domain: str, versions: Sequence[Version]) -> Iterator[Change]:
    """Yield the changes between versions that could be read, the newest first."""
    new: Version | None = None
    comparable = True
    for version in versions:
        if version.sums is not None:
            if new is not None and comparable and not new.equals(version):
                yield Change(
                    after=version.until,
                    until=new.since,
                    domain=shown(domain),
                    more=new.count - version.count,
                    objects=tuple(new.changed(version)),
                )
            new, comparable = version, True
        comparable = comparable and version.before is not None


def _text(node: str, kept: tuple[float, float], changes: Sequence[Change]) -> str:
    times = alike(changes, lambda change: (change.after, change.until))
    lines = []
    for time, same in times.items():
        texts = dict.fromkeys(change.text for change in same)
        lines.append(f"{between(*time)}: {', '.join(texts)}")
    lines.append(
        f"{node}: {count(len(times), 'time')} with changes between the fingerprints of "
        f"{utc(kept[0])} and {utc(kept[1])}"
    )
    return "".join(f"{line}\n" for line in lines)


COMMAND = Command(
    run=_run,
    help="show when the configuration of a node has changed",
    description="Lists the domains of the fingerprint that have changed, by the time between two "
    "checks. A change of an object that was undone is listed, too. "
    "Exit status: 0, or 3 for a usage error.",
    arguments=(
        INVENTORY,
        Argument("node", metavar="NODE", help="name of a node"),
        Argument(
            "domain",
            metavar="DOMAIN",
            nargs="?",
            help="only this domain, such as file, package or unit (docs/fingerprint.md)",
        ),
        JSON,
    ),
)
