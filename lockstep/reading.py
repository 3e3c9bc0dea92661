"""Gets the records of a cluster from its nodes, a file or the history, and checks the nodes."""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TextIO

from lockstep import secrets
from lockstep.checks.accepted import Acceptances, AcceptedError, parsed
from lockstep.checks.context import Context
from lockstep.checks.engine import REACHABLE, check
from lockstep.checks.fingerprint.findings import BRANCHES, places, wanted_past
from lockstep.checks.fingerprint.objects import asked
from lockstep.checks.growth import counter_families
from lockstep.checks.rule import Rule
from lockstep.checks.settled import Batch, batches, joined
from lockstep.checks.site import rules_of
from lockstep.files import managed
from lockstep.fleet.gather import gather
from lockstep.fleet.request import Asked, method
from lockstep.history import findings, fingerprints, records, store
from lockstep.plan import ClusterPlan
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import load
from lockstep.probe.record import (
    MISSING,
    Reading,
    Record,
    Taken,
    Unreachable,
    Unread,
    only_records,
)
from lockstep.report import Report, count, fold
from lockstep.when import utc

Ask = Callable[[ClusterPlan, Mapping[str, Asked]], Reading]
"""Asks nodes of a cluster to show parts of their fingerprints: node -> what to show."""


class RecordsError(Exception):
    """Raised when a file of saved records cannot be used."""


class Progress:
    """Shows how many nodes have been read.

    On a terminal, one line is updated. Elsewhere, a line is printed at the start and at the end.
    """

    def __init__(self, nodes: int, out: TextIO) -> None:
        """Show that the nodes are being read."""
        self.nodes, self.out = count(nodes, "node"), out
        self.done = self.failed = 0
        self.began = time.monotonic()
        self._line(f"reading {self.nodes} ...", f"reading: 0 of {self.nodes}")

    def tell(self, failed: bool) -> None:
        """Count one more node as done, and show the progress."""
        self.done += 1
        self.failed += failed
        self._line("", f"reading: {self.done} of {self.nodes}{self._failures()}")

    def end(self) -> None:
        """Show how many nodes were read, and how long it took."""
        seconds = time.monotonic() - self.began
        read = self.done - self.failed
        text = f"read {read} of {self.nodes} in {seconds:.0f} s{self._failures()}"
        self._line(text, f"{text}\n")

    def _failures(self) -> str:
        return f", {self.failed} failed" if self.failed else ""

    def _line(self, lasting: str, changing: str) -> None:
        if self.out.isatty() and not os.environ.get("NO_COLOR"):
            self.out.write(f"\r\x1b[K{changing}")
        elif lasting:
            self.out.write(f"{lasting}\n")
        self.out.flush()


def now(
    plan: ClusterPlan,
    nodes: Collection[str] | None = None,
    *,
    containers: bool = False,
    through: str = "",
    fingerprint: bool = False,
    slow: bool = False,
    branches: bool = True,
) -> Reading:
    """Read all or some nodes of a cluster; progress goes to standard error.

    Args:
        plan: the plan of the cluster.
        nodes: the nodes to read; None: all.
        containers: whether to start containers, as ``gather`` does.
        through: program that reads the workers, as in ``Share``.
        fingerprint: whether to take fingerprints as well.
        slow: whether to take also the domains that nodes read once a day at most.
        branches: whether to ask nodes whose fingerprints differ for the objects.

    Raises:
        GatherError: no node could be read, because of an error on the control host.
    """
    progress = Progress(len(plan.nodes if nodes is None else nodes), sys.stderr)
    try:
        reading = gather(
            plan,
            nodes,
            containers=containers,
            through=through,
            fingerprint=fingerprint,
            slow=slow,
            tell=progress.tell,
        )
    finally:
        progress.end()
    return with_branches(plan, reading) if fingerprint and branches else reading


def _plain(plan: ClusterPlan, reading: Reading) -> Context:
    """Return the input for comparing fingerprints, which needs no files."""
    return Context(plan=plan, reading=reading, files=lambda plan: ())


def _to_ask(plan: ClusterPlan, reading: Reading) -> dict[str, Asked]:
    """Return the further question about fingerprints that differ: node -> what to show."""
    return asked(places([_plain(plan, reading)]))


def _ask_again(plan: ClusterPlan, wanted: Mapping[str, Asked]) -> Reading:
    return gather(plan, wanted.keys(), asked=wanted)


def with_branches(plan: ClusterPlan, reading: Reading, ask: Ask = _ask_again) -> Reading:
    """Ask nodes whose fingerprints differ for the objects, and add the answers to their records.

    Args:
        plan: the plan of the cluster.
        reading: the records of its nodes.
        ask: returns the answers to the further question.

    Raises:
        GatherError: no node could be read, because of an error on the control host.
    """
    return asked_again(plan, reading, _to_ask(plan, reading), ask)


def with_common_branches(contexts: Sequence[Context]) -> list[Context]:
    """Ask nodes of several clusters whose fingerprints differ, as ``with_branches`` does.

    Raises:
        GatherError: no node of a cluster could be read, because of an error on the control host.
    """
    wanted = asked(places(contexts))
    return [replace(one, reading=_with_own_answers(one, wanted)) for one in contexts]


def _with_own_answers(context: Context, wanted: Mapping[str, Asked]) -> Reading:
    names = {name: context.labelled(name) for name in context.plan.nodes}
    mine = {name: wanted[labelled] for name, labelled in names.items() if labelled in wanted}
    return asked_again(context.plan, context.reading, mine)


def asked_again(
    plan: ClusterPlan, reading: Reading, wanted: Mapping[str, Asked], ask: Ask = _ask_again
) -> Reading:
    """Ask nodes to show parts of their fingerprints, and add the answers to their records.

    Args:
        plan: the plan of the cluster.
        reading: the records of its nodes.
        wanted: node -> what to show.
        ask: returns the answers.

    Raises:
        GatherError: no node could be read, because of an error on the control host.
    """
    answers = only_records(ask(plan, wanted)) if wanted else {}
    added = {
        name: _changed(record, {BRANCHES: answers[name].readings.get(BRANCHES, MISSING)})
        for name, record in only_records(reading).items()
        if name in answers
    }
    return {**reading, **added}


def without_branches(reading: Reading) -> Reading:
    """Return records without the objects that were shown for one report: they are large."""
    kept = {
        name: _changed(record, {}, without=BRANCHES)
        for name, record in only_records(reading).items()
        if BRANCHES in record.readings
    }
    return {**reading, **kept}


def _changed(record: Record, new: Mapping[str, Taken | Unread], without: str = "") -> Record:
    """Return a record with other readings, and without one."""
    readings = {name: value for name, value in record.readings.items() if name != without}
    return record.model_copy(update={"readings": {**readings, **new}})


def check_now(
    plan: ClusterPlan,
    rules: Sequence[Rule],
    limit: frozenset[str] | None,
    *,
    containers: bool = False,
    through: str = "",
    fingerprint: bool = True,
    slow: bool = False,
    settled: bool = False,
) -> tuple[Reading, Report]:
    """Read all nodes and check the selected ones; save the records and findings in the history.

    With ``settled``, they are compared only with settled nodes (``lockstep.checks.settled``). The
    other options are those of ``now``.

    Raises:
        GatherError: no node could be read, because of an error on the control host.
    """
    with store.opened(history_of(plan)):
        accepted(plan)  # report an unusable file or history before reading any node
    reading = now(
        plan,
        containers=containers,
        through=through,
        fingerprint=fingerprint,
        slow=slow,
        branches=not settled,
    )
    read_at, counters = time.time(), counter_families(rules)
    with store.opened(history_of(plan)) as history:
        before, latest = records.earlier(history, reading, counters, read_at)
        records.save(history, without_branches(reading), read_at, method(plan))
    judged = context(plan, reading, before, latest)
    selected = frozenset(plan.nodes if limit is None else limit)
    parts = _settled(rules, judged, selected) if settled else [Batch(selected, judged)]
    with store.opened(history_of(plan)) as history:
        parts = [_with_past(history, part) for part in parts]
    report = joined(check(rules, part.context, part.nodes) for part in parts)
    read = only_records(reading).keys() & {*report.nodes}
    checked = {*report.rules, REACHABLE}
    with store.opened(history_of(plan)) as history:
        report.findings = findings.noted(history, report.findings, checked, read, read_at)
    return reading, report


def _settled(rules: Sequence[Rule], judged: Context, nodes: frozenset[str]) -> list[Batch]:
    """Return the selected nodes with the settled ones, and with the objects that differ then."""
    parts = [*batches(rules, judged, nodes)]
    wanted = asked(place for part in parts for place in places([part.context]))
    answers = asked_again(judged.plan, judged.reading, wanted)
    return [
        replace(part, context=replace(part.context, reading={
            name: answers[name] if isinstance(one, Record) else one
            for name, one in part.context.reading.items()
        }))
        for part in parts
    ]  # fmt: skip


def _with_past(history: sqlite3.Connection, part: Batch) -> Batch:
    """Return the input for a report with what the history knows about the differences."""
    judged = part.context
    past = {one: fingerprints.versions(history, *one) for one in wanted_past([judged])}
    earlier = cache(partial(_earlier, history_of(judged.plan)))
    return replace(part, context=replace(judged, past=past, earlier=earlier))


def _earlier(path: Path, nodes: tuple[str, ...]) -> list[tuple[float, dict[str, Record]]]:
    """Return the earlier checks of some nodes; few nodes, since a record is large."""
    with store.opened(path) as history:
        return records.checks(history, nodes)


def saved(path: str, families: Collection[str] | None = None) -> Reading:
    """Return the records in a file; ``families`` restricts the readings that are loaded.

    Raises:
        RecordsError: the file does not exist or does not contain records.
    """
    gc.disable()  # parsing creates no garbage, and looking for it would take a third of the time
    try:
        with Path(path).open(encoding="utf-8") as file:
            return load(file, families)
    except (OSError, UnicodeDecodeError, ProbeFormatError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordsError(
            f"{path}: {reason}\n  expected  a file written by lockstep check --save-records"
        ) from error
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
            raise RecordsError(f"{text}\n  expected  records of {fold(plan.nodes)}")
        print(text, file=sys.stderr)
    return {name: found.get(name, missing) for name in plan.nodes}


def kept(plan: ClusterPlan, history: sqlite3.Connection) -> Reading:
    """Return each node's newest saved record, unless a later check could not reach the node."""
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


def accepted_file(plan: ClusterPlan) -> Path:
    """Return the path of the file with the differences that a site accepts."""
    inventory = Path(plan.inventory)
    named = plan.spec.checks.accepted
    return inventory.parent / (named or f"{inventory.stem}.accepted.toml")


def accepted(plan: ClusterPlan) -> Acceptances:
    """Return the differences that a site accepts; none if there is no file.

    Raises:
        AcceptedError: the file cannot be used.
    """
    file, today = accepted_file(plan), datetime.fromtimestamp(time.time(), UTC).date()
    try:
        text = file.read_text(encoding="utf-8") if plan.inventory else ""
    except FileNotFoundError:
        if plan.spec.checks.accepted:
            raise AcceptedError(
                f"{file}: no such file, which the description names (checks.accepted)\n"
                f"  next      touch {file}"
            ) from None
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise AcceptedError(
            f"{file}: {reason}\n  expected  a file that lockstep accept wrote"
        ) from error
    if not text:
        return Acceptances(file=str(file))
    rules = [rule.id for rule in rules_of(plan.spec) if rule.id != REACHABLE]
    return Acceptances(parsed(text, str(file), rules, plan.nodes), today, str(file))


def context(
    plan: ClusterPlan,
    reading: Reading,
    before: Mapping[str, Record] | None = None,
    latest: Mapping[str, Record] | None = None,
) -> Context:
    """Return the input for the rules, including the secrets on this machine.

    Raises:
        SecretsUnsafe: the secrets file cannot be used.
        AcceptedError: the file of accepted differences cannot be used.
    """
    held = secrets.existing(plan.spec.name, plan.spec.secrets_dir, plan.spec.software.module_key)
    return Context(
        plan=plan,
        reading=reading,
        files=partial(managed, secrets=held),
        munge_key_sha256=None if held is None else held.munge_key_sha256,
        before=before,
        latest=latest,
        accepted=accepted(plan),
    )
