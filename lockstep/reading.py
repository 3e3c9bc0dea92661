"""Loads the records of a cluster: from the nodes, from a file or from the history."""

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
    """A file of saved records cannot be used."""


def now(
    plan: ClusterPlan,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    through: Through | None = None,
) -> Reading:
    """Read all or some nodes of a cluster; progress goes to standard error.

    Raises:
        GatherError: an error on the control host prevented reading any node.
    """
    progress = Progress(len(plan.nodes if nodes is None else nodes), sys.stderr)
    try:
        return gather(plan, nodes, containers=containers, through=through, tell=progress.tell)
    finally:
        progress.end()


def saved(path: str, families: Collection[str] | None = None) -> Reading:
    """Return the records in a file, optionally only some families of readings.

    Raises:
        RecordsError: the file does not exist or does not contain records.
    """
    gc.disable()  # parsing creates no garbage, and collection would take a third of the time
    try:
        with Path(path).open(encoding="utf-8") as file:
            return load(file, families)
    except (OSError, UnicodeDecodeError, ProbeFormatError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        wanted = "a file written by lockstep check --save-records"
        raise RecordsError(f"{path}: {reason}\n  expected  {wanted}") from error
    finally:
        gc.freeze()
        gc.enable()


def saved_of(plan: ClusterPlan, path: str) -> Reading:
    """Return the records in a file for each node of a cluster; warn about unknown nodes.

    Raises:
        RecordsError: the file does not exist or contains no records of the cluster's nodes.
    """
    found, missing = saved(path), Unreachable(f"not in {path}")
    if strangers := found.keys() - plan.nodes.keys():
        text = f"{path} has records of {fold(strangers)}, which the inventory does not contain"
        if not found.keys() & plan.nodes.keys():
            raise RecordsError(f"{text}\n  expected  {fold(plan.nodes)}")
        print(text, file=sys.stderr)
    return {name: found.get(name, missing) for name in plan.nodes}


def kept(plan: ClusterPlan, history: sqlite3.Connection) -> Reading:
    """Return each node's newest saved record, or none if the node became unreachable later."""
    newest, gone = records.newest(history, plan.nodes), findings.last_found(history, REACHABLE)
    missing = Unreachable("no saved record")
    found: dict[str, Record | Unreachable] = dict.fromkeys(plan.nodes, missing)
    for name in plan.nodes:
        read_at = newest[name].read_at if name in newest else 0.0
        if gone.get(name, 0.0) > read_at:
            found[name] = Unreachable(f"not reached by the check of {utc(gone[name])}")
        elif name in newest:
            found[name] = newest[name].record
    return found


def history_of(plan: ClusterPlan) -> Path:
    """Return the path of a cluster's history."""
    return store.file(plan.spec.name, plan.spec.records_dir)


def context(
    plan: ClusterPlan,
    reading: Reading,
    before: Mapping[str, Record] | None = None,
    latest: Mapping[str, Record] | None = None,
) -> Context:
    """Return the input of the rules, including the secrets on this machine.

    Raises:
        SecretsUnsafe: other users can read the secrets.
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
