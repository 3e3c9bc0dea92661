"""``lockstep log INVENTORY``: which run has changed what, on which nodes, and who started it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path

from lockstep.commands import (
    INVENTORY,
    JSON,
    Argument,
    Command,
    moment_of,
    node_named,
    require_writable,
    show,
)
from lockstep.history import runs, store
from lockstep.history.runs import Run
from lockstep.inventory import load
from lockstep.reading import history_of
from lockstep.report import ExitStatus, alike, count, fold
from lockstep.when import span, utc

NAMED = 6
"""At most so many files or packages of an operation are shown; ``--json`` has all of them."""
FROM_DEPLOY = re.compile(r"^deploys/\w+\.py \| ")
"""pyinfra begins the name of an operation with the deploy that ``deploys/cluster.py`` includes."""


def _run(arguments: argparse.Namespace) -> int:
    require_writable(arguments, "json")
    plan = load(arguments.inventory)
    node = node_named(plan, arguments.node).name if arguments.node else None
    since = moment_of("--since", arguments.since) if arguments.since else 0.0
    path = history_of(plan)
    found = []
    if path.exists():
        with store.opened(path) as history:
            found = list(runs.since(history, since, node))
    show(arguments.json, lambda: _document(found), lambda: _text(found, path))
    return ExitStatus.CONSISTENT


def _document(found: Sequence[Run]) -> dict[str, object]:
    def plain(items: Sequence[tuple[str, object]]) -> dict[str, object]:
        return {key: value.value if isinstance(value, Enum) else value for key, value in items}

    return {"format": 1, "runs": [asdict(run, dict_factory=plain) for run in found]}


def _text(found: Sequence[Run], path: Path) -> str:
    lines = [line for run in found for line in _lines(run)]
    lines.append(f"{count(len(found), 'run')} of this machine in {path}")
    return "".join(f"{line}\n" for line in lines)


def _lines(run: Run) -> Iterator[str]:
    commit = f", site {run.commit}" if run.commit else ""
    took = span(run.ended - run.began)
    yield (f"{utc(run.began)}  {run.user} on {run.host}, {took}, Lockstep {run.version}{commit}")
    yield f"  $ {run.command}"
    kinds = alike(run.nodes, lambda name: run.nodes[name])
    for one, names in kinds.items():
        reason = f": {one.reason}" if one.reason else ""
        yield f"  {fold(names)}  {one.result.value}{reason}"
        for change in one.changes:
            more = len(change.what) - NAMED
            named = [*change.what[:NAMED], *([f"and {more} more"] if more > 0 else [])]
            operation = FROM_DEPLOY.sub("", change.operation)
            yield f"    {operation}" + (f": {', '.join(named)}" if named else "")
    yield ""


COMMAND = Command(
    run=_run,
    help="show which runs have changed what on which nodes, and who started them",
    description="Lists the runs that this machine has started with the same records_dir, the "
    "newest first; runs are kept for 90 days. Exit status: 0, or 3 for a usage error.",
    arguments=(
        INVENTORY,
        Argument("--node", metavar="NODE", help="only what was done on this node"),
        Argument(
            "--since",
            metavar="WHEN",
            help="only runs that ended since then: an age (90m, 36h, 7d) or a UTC time",
        ),
        JSON,
    ),
)
