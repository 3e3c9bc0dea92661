"""``lockstep record INVENTORY``: reads the nodes and saves their records without checking them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from operator import itemgetter

from lockstep.commands import INVENTORY, Command, limit, limited
from lockstep.history import records, store
from lockstep.inventory import load
from lockstep.probe.record import Record, Unreachable, Unread, only_records
from lockstep.reading import history_of, now
from lockstep.report import ExitStatus, alike, fold
from lockstep.when import utc


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    nodes = limited(plan, arguments.limit)
    path = history_of(plan)
    with store.opened(path):
        pass  # report an unusable history before reading any node
    reading = now(plan, nodes)
    read_at = time.time()
    with store.opened(path) as history:
        records.save(history, reading, read_at)
    lost = {name: got.reason for name, got in reading.items() if isinstance(got, Unreachable)}
    for reason, names in alike(lost, lost.__getitem__).items():
        print(f"{fold(names)}: no record: {reason}")
    for line in _not_read(only_records(reading)):
        print(line)
    print(f"{len(reading) - len(lost)} of {len(reading)} records saved, {utc(read_at)}: {path}")
    return ExitStatus.UNREAD if lost else ExitStatus.CONSISTENT


def _not_read(found: Mapping[str, Record]) -> Iterator[str]:
    """Yield a line for each set of readings that failed on the same nodes for the same reason."""
    unread = alike(
        (
            (node, one.unread, name)
            for node, record in found.items()
            for name, one in sorted(record.readings.items())
            if isinstance(one, Unread)
        ),
        itemgetter(0, 1),
    )
    kinds = alike(unread, lambda key: (", ".join(name for _, _, name in unread[key]), key[1]))
    for (names, reason), places in kinds.items():
        yield f"{fold(node for node, _ in places)}: not read: {names}: {reason}"


COMMAND = Command(
    run=_run,
    help="read the nodes and save their records, for lockstep diff and counter checks",
    description="Exit status: 0 all nodes were read, 2 some could not be read, 3 usage error.",
    arguments=(INVENTORY, limit("read")),
)
