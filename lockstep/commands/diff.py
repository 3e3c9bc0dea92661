"""``lockstep diff``: two nodes, two times of one node, or two files of records, item by item."""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from lockstep.checks import not_compared
from lockstep.checks.difference import Comparison, of_records
from lockstep.commands._asked import WrongUse, answered, no_node
from lockstep.files import managed
from lockstep.history import records
from lockstep.history.store import opened
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Record, Unreachable, only_records
from lockstep.reading import history_of, now, saved, saved_of
from lockstep.report import ExitStatus, fold
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
        help="show what differs between two nodes, two times of a node, or two saved records",
        description="Shows every reading that differs; lockstep check says which one is right. "
        "Exit status: 0 nothing differs, 1 something does, 3 wrong use.",
    )
    parser.add_argument(
        "what",
        metavar="INVENTORY NODE NODE | RECORDS RECORDS",
        nargs="+",
        help="an inventory file (.py) and one or two nodes, or two files of records",
    )
    parser.add_argument("--records", metavar="FILE", help="two nodes of saved records")
    parser.add_argument(
        "--before",
        metavar="TIME",
        help="what was kept of the node then: 36h or 7d ago, 2026-11-20, 2026-11-20T14:03 (UTC)",
    )
    parser.add_argument("--after", metavar="TIME", help="and then; the newest kept, if not said")
    parser.add_argument(
        "--all", action="store_true", help="also what must differ: names, serials, times, counters"
    )
    parser.set_defaults(run=run)


@answered
def run(arguments: argparse.Namespace) -> int:
    """Show the differences; return the exit status."""
    what, times = arguments.what, (arguments.before, arguments.after)
    if len(what) == 3 and not any(times):
        return _two_nodes(arguments)
    if len(what) == 2 and arguments.before and not arguments.records:
        return _two_times(arguments)
    if len(what) == 2 and not any((*times, arguments.records)) and not what[0].endswith(".py"):
        return _two_files(arguments)
    raise WrongUse(f"lockstep diff {' '.join(what)}: not one of its forms\n  expected  {FORMS}")


def _two_nodes(arguments: argparse.Namespace) -> int:
    inventory, *names = arguments.what
    plan = load(inventory)
    for name in names:
        _known(plan, name)
    reading = (
        saved_of(plan, arguments.records)
        if arguments.records
        else now(plan, inventory, frozenset(names))
    )
    left, right = (_record(reading[name], name) for name in names)
    ignored = {*not_compared.between_nodes(), *_own_files(plan, names)}
    return _show(of_records(left, right, () if arguments.all else ignored), *names)


def _two_times(arguments: argparse.Namespace) -> int:
    inventory, name = arguments.what
    plan = load(inventory)
    _known(plan, name)
    with opened(history_of(plan)) as history:
        kept = [_at(history, name, text, inventory) for text in (arguments.before, arguments.after)]
    before, after = kept
    if before == after:
        raise WrongUse(
            f"both times give one record of {name}, {utc(before.read_at)}\n"
            f"  next      lockstep record {inventory} --limit {name}"
        )
    ignored = () if arguments.all else not_compared.at_two_times()
    found = of_records(before.record, after.record, ignored)
    return _show(found, utc(before.read_at), utc(after.read_at))


def _two_files(arguments: argparse.Namespace) -> int:
    left, right = arguments.what
    here, there = only_records(saved(left)), only_records(saved(right))
    ignored = () if arguments.all else not_compared.at_two_times()
    count, both = 0, here.keys() & there.keys()
    for name in sorted(both):
        found = of_records(here[name], there[name], ignored)
        if found.differences:
            print(f"{name}\n{'-' * len(name)}")
            print(found.to_text(left, right), end="")
        count += len(found.differences)
    for path, lacking in ((left, there.keys() - both), (right, here.keys() - both)):
        if lacking:
            print(f"{fold(lacking)}: no record in {path}")
        count += len(lacking)
    nodes = "1 node" if len(both) == 1 else f"{len(both)} nodes"
    return _ended(f"{left} and {right}, {nodes}", count)


def _show(found: Comparison, left: str, right: str) -> int:
    print(found.to_text(left, right), end="")
    if found.unread:
        print(f"not read on either side: {', '.join(found.unread)}")
    return _ended(f"{left} and {right}", len(found.differences))


def _ended(sides: str, count: int) -> int:
    places = "1 place differs" if count == 1 else f"{count or 'no'} places differ"
    status = ExitStatus.DIFFERS if count else ExitStatus.CONSISTENT
    print(f"{sides}: {places}. Exit {int(status)}.")
    return status


def _own_files(plan: ClusterPlan, names: Iterable[str]) -> Collection[str]:
    """Return the files whose content is by plan another on each of the nodes."""
    hashes = [{file.path: file.sha256 for file in managed(plan.nodes[n], None)} for n in names]
    left, right = hashes
    return {f"files.{path}.sha256" for path in left if left[path] != right.get(path, left[path])}


def _known(plan: ClusterPlan, name: str) -> None:
    if name not in plan.nodes:
        raise no_node(name, plan.nodes)


def _record(got: Record | Unreachable, name: str) -> Record:
    if isinstance(got, Unreachable):
        raise WrongUse(f"{name}: no record: {got.reason}")
    return got


def _at(history: sqlite3.Connection, name: str, text: str | None, inventory: str) -> records.Kept:
    try:
        when = float("inf") if text is None else moment(text, time.time())
    except ValueError as error:
        raise WrongUse(f"{text!r}: no time\n  expected  {error}") from error
    kept = records.at(history, name, when)
    if kept is None:
        times = records.times(history, name)
        have = f"the oldest of {len(times)} is of {utc(times[0])}" if times else "none is kept"
        raise WrongUse(
            f"no record of {name}" + (f" at or before {utc(when)}" if text else "") + f": {have}\n"
            f"  next      lockstep record {inventory} --limit {name}"
        )
    return kept
