"""``lockstep diff``: compares two nodes, one node at two times, or two files of records."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from lockstep.checks import not_compared
from lockstep.checks.difference import Comparison, of_records
from lockstep.commands._arguments import (
    NotRead,
    WrongUse,
    no_node,
    reports_errors,
    require_writable,
    write,
)
from lockstep.files import managed
from lockstep.history import records
from lockstep.history.store import opened
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Record, Unreachable, only_records
from lockstep.reading import history_of, now, saved, saved_of
from lockstep.report import ExitStatus, count, fold
from lockstep.when import moment, utc

if TYPE_CHECKING:
    from lockstep.commands import Subparsers

FORMS = """\
lockstep diff INVENTORY NODE NODE [--records FILE]
       lockstep diff INVENTORY NODE --before TIME [--after TIME]
       lockstep diff RECORDS RECORDS"""


def add_parser(subparsers: Subparsers) -> None:
    """Add ``diff`` to the command line."""
    parser = subparsers.add_parser(
        "diff",
        usage=FORMS,
        help="show differences between two nodes, one node at two times, or two files of records",
        description="Shows every value that differs; lockstep check tells which one is right. "
        "Exit status: 0 no differences, 1 differences found, 2 a node could not be read, "
        "3 usage error.",
    )
    parser.add_argument(
        "what",
        metavar="INVENTORY NODE NODE | RECORDS RECORDS",
        nargs="+",
        help="an inventory file (.py) and one or two nodes, or two files of records",
    )
    parser.add_argument("--records", metavar="FILE", help="compare two nodes in saved records")
    parser.add_argument(
        "--before",
        metavar="TIME",
        help="use the saved record from this time: 36h or 7d (ago), 2026-11-20 or "
        "2026-11-20T14:03 (UTC)",
    )
    parser.add_argument(
        "--after", metavar="TIME", help="compare with this record; default: the newest"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="include values that always differ: names, serial numbers, times, counters",
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for stdout")
    parser.set_defaults(run=run)


@dataclass
class Sides:
    """Differences between two sides per node; the node is "" when the sides are two nodes."""

    left: str
    right: str
    found: dict[str, Comparison]
    lacking: dict[str, list[str]] = field(default_factory=dict)
    """Side -> nodes that have a record only on the other side."""

    @property
    def count(self) -> int:
        """Return the number of differences; a node missing on one side counts as one."""
        places = sum(len(found.differences) for found in self.found.values())
        return places + sum(map(len, self.lacking.values()))

    @property
    def status(self) -> ExitStatus:
        """Return the exit status."""
        return ExitStatus.DIFFERS if self.count else ExitStatus.CONSISTENT

    def to_json(self) -> str:
        """Return the result as JSON."""
        document = {
            "format": 1,
            "exit_status": int(self.status),
            "sides": [self.left, self.right],
            "nodes": {name: asdict(found) for name, found in self.found.items()},
            "lacking": self.lacking,
        }
        return json.dumps(document, indent=2) + "\n"

    def to_text(self) -> str:
        """Return one block per difference, and the total."""
        lines: list[str] = []
        for name, found in self.found.items():
            text = found.to_text(self.left, self.right)
            lines += [name, "-" * len(name)] if name and text else []
            lines += text.splitlines()
            if found.unread and not name:
                lines.append(f"not read on either side: {', '.join(found.unread)}")
        lines += [
            f"{fold(nodes)}: no record in {side}" for side, nodes in self.lacking.items() if nodes
        ]
        of = f", {count(len(self.found), 'node')}" if "" not in self.found else ""
        total = count(self.count, "difference") if self.count else "no differences"
        left_out = sum(found.left_out for found in self.found.values())
        total += f" ({left_out} more with --all)" if left_out else ""
        lines.append(f"{self.left} and {self.right}{of}: {total}. Exit {int(self.status)}.")
        return "".join(f"{line}\n" for line in lines)


@reports_errors
def run(arguments: argparse.Namespace) -> int:
    """Show the differences; return the exit status."""
    require_writable(arguments, "json")
    sides = _sides(arguments)
    if arguments.json:
        write(arguments.json, sides.to_json())
    if arguments.json != "-":
        sys.stdout.write(sides.to_text())
    return sides.status


def _sides(arguments: argparse.Namespace) -> Sides:
    what, times = arguments.what, (arguments.before, arguments.after)
    if len(what) == 3 and not any(times):
        return _two_nodes(arguments)
    if len(what) == 2 and arguments.before and not arguments.records:
        return _two_times(arguments)
    if len(what) == 2 and not any((*times, arguments.records)) and not what[0].endswith(".py"):
        return _two_files(arguments)
    raise WrongUse(f"lockstep diff {' '.join(what)}: wrong arguments\n  expected  {FORMS}")


def _two_nodes(arguments: argparse.Namespace) -> Sides:
    inventory, *names = arguments.what
    plan = load(inventory)
    for name in names:
        _known(plan, name)
    reading = (
        saved_of(plan, arguments.records) if arguments.records else now(plan, frozenset(names))
    )
    left, right = (_record(reading[name], name) for name in names)
    ignored = {*not_compared.between_nodes(), *_own_files(plan, names)}
    found = of_records(left, right, () if arguments.all else ignored)
    return Sides(names[0], names[1], {"": found})


def _two_times(arguments: argparse.Namespace) -> Sides:
    inventory, name = arguments.what
    plan = load(inventory)
    _known(plan, name)
    with opened(history_of(plan)) as history:
        kept = [_at(history, name, text, inventory) for text in (arguments.before, arguments.after)]
    before, after = kept
    if before == after:
        raise WrongUse(
            f"both times select the same record of {name}, {utc(before.read_at)}\n"
            f"  next      lockstep record {inventory} --limit {name}"
        )
    ignored = () if arguments.all else not_compared.at_two_times()
    found = of_records(before.record, after.record, ignored)
    return Sides(utc(before.read_at), utc(after.read_at), {"": found})


def _two_files(arguments: argparse.Namespace) -> Sides:
    left, right = arguments.what
    here, there = only_records(saved(left)), only_records(saved(right))
    ignored = () if arguments.all else not_compared.at_two_times()
    both = here.keys() & there.keys()
    return Sides(
        left,
        right,
        {name: of_records(here[name], there[name], ignored) for name in sorted(both)},
        {left: sorted(there.keys() - both), right: sorted(here.keys() - both)},
    )


def _own_files(plan: ClusterPlan, names: Iterable[str]) -> Collection[str]:
    """Return the files whose content differs between the two nodes by plan."""
    hashes = [{file.path: file.sha256 for file in managed(plan.nodes[n], None)} for n in names]
    left, right = hashes
    return {f"files.{path}.sha256" for path in left if left[path] != right.get(path, left[path])}


def _known(plan: ClusterPlan, name: str) -> None:
    if name not in plan.nodes:
        raise no_node(name, plan.nodes)


def _record(got: Record | Unreachable, name: str) -> Record:
    if isinstance(got, Unreachable):
        raise NotRead(f"{name}: no record: {got.reason}")
    return got


def _at(history: sqlite3.Connection, name: str, text: str | None, inventory: str) -> records.Kept:
    try:
        when = float("inf") if text is None else moment(text, time.time())
    except ValueError as error:
        raise WrongUse(f"{text!r} is not a time\n  expected  {error}") from error
    kept = records.at(history, name, when)
    if kept is None:
        times = records.times(history, name)
        have = f"the oldest of {len(times)} is from {utc(times[0])}" if times else "none is saved"
        raise WrongUse(
            f"no record of {name}" + (f" at or before {utc(when)}" if text else "") + f": {have}\n"
            f"  next      lockstep record {inventory} --limit {name}"
        )
    return kept
