"""Where the records of a cluster come from: the nodes now, a file, or what is kept of them."""

from __future__ import annotations

import gc
import sqlite3
import sys
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from lockstep import secrets
from lockstep.checks.context import Context
from lockstep.checks.engine import REACHABLE
from lockstep.files import managed
from lockstep.fleet.gather import Through, gather
from lockstep.fleet.progress import Progress
from lockstep.history import findings, records, store
from lockstep.plan import ClusterPlan
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import load
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.report import fold
from lockstep.when import utc


class RecordsError(Exception):
    """A file of saved records cannot be used as one."""


def now(
    plan: ClusterPlan,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    through: Through | None = None,
) -> Reading:
    """Read the nodes of a cluster, all of them or these; says how far it is on standard error.

    Raises:
        GatherError: none could be read, for a reason of our own.
    """
    progress = Progress(len(plan.nodes if nodes is None else nodes), sys.stderr)
    try:
        return gather(plan, nodes, containers=containers, through=through, tell=progress.tell)
    finally:
        progress.end()


def saved(path: str, families: Collection[str] | None = None) -> Reading:
    """Return the records in a file; of some families of readings, where they are named.

    Raises:
        RecordsError: there is no such file, or it holds something else.
    """
    gc.disable()  # nothing of what is read is garbage: looking for it takes a third of the time
    try:
        with Path(path).open(encoding="utf-8") as file:
            return load(file, families)
    except (OSError, UnicodeDecodeError, ProbeFormatError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        wanted = "a file that lockstep check --save-records wrote"
        raise RecordsError(f"{path}: {said}\n  expected  {wanted}") from error
    finally:
        gc.freeze()
        gc.enable()


def saved_of(plan: ClusterPlan, path: str) -> Reading:
    """Return the records in a file, of each node of a cluster; names others on standard error.

    Raises:
        RecordsError: there is no such file, or it holds something else, or none of its nodes.
    """
    found, missing = saved(path), Unreachable(f"not in {path}")
    if strangers := found.keys() - plan.nodes.keys():
        said = f"{path} has {fold(strangers)}, which the inventory lacks"
        if not found.keys() & plan.nodes.keys():
            raise RecordsError(f"{said}\n  expected  {fold(plan.nodes)}")
        print(said, file=sys.stderr)
    return {name: found.get(name, missing) for name in plan.nodes}


def kept(plan: ClusterPlan, history: sqlite3.Connection) -> Reading:
    """Return the newest record that is kept of each node; of one that is gone since then, none."""
    newest, gone = records.newest(history, plan.nodes), findings.last_found(history, REACHABLE)
    missing = Unreachable("no record of it is kept")
    found: dict[str, Record | Unreachable] = dict.fromkeys(plan.nodes, missing)
    for name in plan.nodes:
        read_at = newest[name].read_at if name in newest else 0.0
        if gone.get(name, 0.0) > read_at:
            found[name] = Unreachable(f"not read by the check of {utc(gone[name])}")
        elif name in newest:
            found[name] = newest[name].record
    return found


def history_of(plan: ClusterPlan) -> Path:
    """Return the file of a cluster's history."""
    return store.file(plan.spec.name, plan.spec.records_dir)


def context(
    plan: ClusterPlan,
    reading: Reading,
    before: Mapping[str, Record] | None = None,
    latest: Mapping[str, Record] | None = None,
) -> Context:
    """Return all that the rules judge, with the secrets that this machine holds.

    Raises:
        SecretsUnsafe: others could read them.
    """
    held = secrets.existing(plan.spec.name, plan.spec.secrets_dir)
    return Context(
        plan=plan,
        reading=reading,
        files=partial(managed, secrets=held),
        munge_key_sha256=None if held is None else held.munge_key_sha256,
        before=before,
        latest=latest,
    )
