"""``lockstep record INVENTORY``: reads the nodes and saves the records without checking them."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from lockstep.commands._arguments import limited, reports_errors
from lockstep.history import records
from lockstep.history.store import opened
from lockstep.inventory import load
from lockstep.probe.record import Reading, Record, Unreachable, Unread
from lockstep.reading import history_of, now
from lockstep.report import ExitStatus, fold
from lockstep.when import utc

if TYPE_CHECKING:
    from lockstep.commands import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add ``record`` to the command line."""
    parser = subparsers.add_parser(
        "record",
        help="read the nodes and save their records, for lockstep diff and counter checks",
        description="Exit status: 0 all nodes were read, 2 some could not be read, 3 usage error.",
    )
    parser.add_argument("inventory", metavar="INVENTORY", help="inventory file")
    parser.add_argument(
        "--limit",
        metavar="NODES",
        action="append",
        help="read these nodes only: names, worker[01-04], or a role; repeatable",
    )
    parser.set_defaults(run=run)


@reports_errors
def run(arguments: argparse.Namespace) -> int:
    """Read the nodes and save their records; return the exit status."""
    plan = load(arguments.inventory)
    nodes = limited(plan, arguments.limit)
    path = history_of(plan)
    with opened(path):
        pass  # report an unusable history before reading any node
    reading = now(plan, nodes)
    read_at = time.time()
    with opened(path) as history:
        records.save(history, reading, read_at)
    lost = [name for name, got in reading.items() if isinstance(got, Unreachable)]
    for line in _not_read(reading):
        print(line)
    print(f"{len(reading) - len(lost)} of {len(reading)} records saved, {utc(read_at)}: {path}")
    return ExitStatus.UNREAD if lost else ExitStatus.CONSISTENT


def _not_read(reading: Reading) -> list[str]:
    """Return one line per reason for nodes without a record, then for missing readings."""
    lost: dict[str, list[str]] = {}
    readings: dict[tuple[str, str], list[str]] = {}
    for name, got in reading.items():
        if isinstance(got, Unreachable):
            lost.setdefault(got.reason, []).append(name)
        else:
            for reason, names in _unread(got).items():
                readings.setdefault((", ".join(names), reason), []).append(name)
    lines = [f"{fold(names)}: no record: {reason}" for reason, names in lost.items()]
    return lines + [
        f"{fold(names)}: not read: {what}: {reason}" for (what, reason), names in readings.items()
    ]


def _unread(record: Record) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, reading in sorted(record.readings.items()):
        if isinstance(reading, Unread):
            found.setdefault(reading.unread, []).append(name)
    return found
