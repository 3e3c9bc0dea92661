"""``lockstep diff``: compares two nodes, one node at two times, or two record files."""

from __future__ import annotations

import argparse
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field

from lockstep.checks import not_compared
from lockstep.checks.difference import Comparison, of_records
from lockstep.checks.fingerprint import pairs
from lockstep.commands import (
    JSON,
    Argument,
    Command,
    NotRead,
    WrongUse,
    moment_of,
    node_named,
    require_writable,
    show,
)
from lockstep.files import managed
from lockstep.history import records, store
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Record, Unreachable, only_records
from lockstep.reading import asked_again, history_of, now, saved, saved_of
from lockstep.report import ExitStatus, count, fold
from lockstep.when import utc

FORMS = """\
lockstep diff INVENTORY NODE NODE [--records FILE]
       lockstep diff INVENTORY NODE --before TIME [--after TIME]
       lockstep diff RECORDS RECORDS"""


@dataclass
class Sides:
    """Differences between two sides, keyed by node; "" is the key of a single pair of records."""

    left: str
    right: str
    found: dict[str, Comparison]
    lacking: dict[str, list[str]] = field(default_factory=dict)
    """Side -> the nodes that have a record only on the other side."""

    @property
    def count(self) -> int:
        """Return the number of differences; a node missing on one side counts as one."""
        return sum(len(found.differences) for found in self.found.values()) + sum(
            len(nodes) for nodes in self.lacking.values()
        )

    @property
    def status(self) -> ExitStatus:
        """Return the exit status."""
        return ExitStatus.DIFFERS if self.count else ExitStatus.CONSISTENT

    def document(self) -> dict[str, object]:
        """Return the result as a JSON document."""
        return {
            "format": 1,
            "exit_status": int(self.status),
            "sides": [self.left, self.right],
            "nodes": {name: asdict(found) for name, found in self.found.items()},
            "lacking": self.lacking,
        }

    def to_text(self) -> str:
        """Return one block of text per difference, followed by the total."""
        lines: list[str] = []
        for name, found in self.found.items():
            text = found.to_text(self.left, self.right)
            lines += [name, "-" * len(name)] if name and text else []
            lines += text.splitlines()
            if found.unread and not name:
                lines.append(f"not read on either side: {', '.join(found.unread)}")
            for side in found.without_fingerprint:
                of = f"{name} in " if name else ""
                lines.append(
                    f"fingerprints were not compared: {of}{getattr(self, side)} has none, or one "
                    "of another version of Lockstep"
                )
        lines += [
            f"{fold(nodes)}: no record in {side}" for side, nodes in self.lacking.items() if nodes
        ]
        of = f", {count(len(self.found), 'node')}" if "" not in self.found else ""
        total = count(self.count, "difference") if self.count else "no differences"
        left_out = sum(found.left_out for found in self.found.values())
        more = f" ({left_out} more with --all)" if left_out else ""
        ending = f"{self.left} and {self.right}{of}: {total}{more}. Exit {int(self.status)}.\n"
        return "".join(f"{line}\n" for line in lines) + ending


def _run(arguments: argparse.Namespace) -> int:
    require_writable(arguments, "json")
    what, times = arguments.what, (arguments.before, arguments.after)
    if len(what) == 3 and not any(times):
        sides = _two_nodes(arguments)
    elif len(what) == 2 and arguments.before and not arguments.records:
        sides = _two_times(arguments)
    elif len(what) == 2 and not any((*times, arguments.records)) and not what[0].endswith(".py"):
        sides = _two_files(arguments)
    else:
        raise WrongUse(f"lockstep diff {' '.join(what)}: wrong arguments\n  expected  {FORMS}")
    show(arguments.json, sides.document, sides.to_text)
    return sides.status


def _two_nodes(arguments: argparse.Namespace) -> Sides:
    inventory, *names = arguments.what
    plan = load(inventory)
    mine, other = (
        {file.path: file.sha256 for file in managed(node_named(plan, name), None)} for name in names
    )
    left, right = _pair(plan, names, arguments.records)
    # The plan gives these files different content on the two nodes.
    own = {
        f"files.{path}.sha256" for path, sha256 in mine.items() if sha256 != other.get(path, sha256)
    }
    # Some services listen on the node's own address only.
    own |= {f"listeners.*.{plan.nodes[name].address}" for name in names}
    ignored = {*not_compared.between_nodes(), *own}
    return Sides(names[0], names[1], {"": _compared(left, right, () if arguments.all else ignored)})


def _pair(plan: ClusterPlan, names: Sequence[str], saved_records: str | None) -> list[Record]:
    """Return the records of two nodes; live nodes show the objects in which they differ."""
    if saved_records:
        reading = saved_of(plan, saved_records)
        return [_record(reading[name], name) for name in names]
    reading = now(plan, frozenset(names), fingerprint=True, branches=False)
    left, right = (_record(reading[name], name) for name in names)
    wanted = pairs.question(left, right)
    reading = asked_again(plan, reading, dict.fromkeys(names, wanted) if wanted else {})
    return [_record(reading[name], name) for name in names]


def _compared(left: Record, right: Record, ignored: Collection[str]) -> Comparison:
    """Compare two records: their readings and their fingerprints."""
    found = of_records(left, right, ignored)
    pairs.add(found, left, right)
    return found


def _two_times(arguments: argparse.Namespace) -> Sides:
    inventory, name = arguments.what
    plan = load(inventory)
    node_named(plan, name)
    with store.opened(history_of(plan)) as history:
        before, after = (
            _at(history, name, f"--{end}", getattr(arguments, end), inventory)
            for end in ("before", "after")
        )
    if before == after:
        raise WrongUse(
            f"both times select the same record of {name}, {utc(before.read_at)}\n"
            f"  next      lockstep record {inventory} --limit {name}"
        )
    ignored = () if arguments.all else not_compared.at_two_times()
    found = _compared(before.record, after.record, ignored)
    return Sides(utc(before.read_at), utc(after.read_at), {"": found})


def _two_files(arguments: argparse.Namespace) -> Sides:
    left, right = arguments.what
    here, there = only_records(saved(left)), only_records(saved(right))
    ignored = () if arguments.all else not_compared.at_two_times()
    both = here.keys() & there.keys()
    return Sides(
        left,
        right,
        {name: _compared(here[name], there[name], ignored) for name in sorted(both)},
        {left: sorted(there.keys() - both), right: sorted(here.keys() - both)},
    )


def _record(got: Record | Unreachable, name: str) -> Record:
    if isinstance(got, Unreachable):
        raise NotRead(f"no record of {name}: {got.reason}")
    return got


def _at(
    history: sqlite3.Connection, name: str, option: str, text: str | None, inventory: str
) -> records.Kept:
    when = float("inf") if text is None else moment_of(option, text)
    kept = records.at(history, name, when)
    if kept is None:
        times = records.times(history, name)
        have = f"the oldest of {len(times)} is from {utc(times[0])}" if times else "none is saved"
        raise WrongUse(
            f"no record of {name}" + (f" at or before {utc(when)}" if text else "") + f": {have}\n"
            f"  next      lockstep record {inventory} --limit {name}"
        )
    return kept


COMMAND = Command(
    run=_run,
    usage=FORMS,
    help="compare two nodes, one node at two times, or two record files",
    description="Shows every value that differs; lockstep check shows which are wrong. "
    "Exit status: 0 no differences, 1 differences found, 2 a node could not be read, "
    "3 usage error.",
    arguments=(
        Argument(
            "what",
            metavar="INVENTORY NODE NODE | RECORDS RECORDS",
            nargs="+",
            help="an inventory file (.py) and one or two nodes, or two record files",
        ),
        Argument("--records", metavar="FILE", help="compare two nodes in this record file"),
        Argument(
            "--before",
            metavar="TIME",
            help="use the newest saved record at or before this time: an age such as 36h or "
            "7d, or a UTC time such as 2026-11-20 or 2026-11-20T14:03",
        ),
        Argument("--after", metavar="TIME", help="time of the other record; default: the newest"),
        Argument(
            "--all",
            action="store_true",
            help="include values that always differ: names, serial numbers, times, counters",
        ),
        JSON,
    ),
)
