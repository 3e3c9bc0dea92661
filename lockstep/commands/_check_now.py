"""Reads the nodes, checks them with the help of the history, and saves the results there."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lockstep.checks.engine import REACHABLE, check
from lockstep.checks.growth import counter_families
from lockstep.checks.rule import Rule
from lockstep.fleet.gather import Through
from lockstep.history import findings, records
from lockstep.history.store import opened
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Reading, Record
from lockstep.reading import context, history_of, now
from lockstep.report import Report


def check_now(
    plan: ClusterPlan,
    rules: Sequence[Rule],
    limit: frozenset[str] | None,
    *,
    containers: bool = False,
    through: Through | None = None,
) -> tuple[Reading, Report]:
    """Return the records of all nodes and the report on the selected ones; save both."""
    with opened(history_of(plan)):
        pass  # report an unusable history before reading any node
    reading = now(plan, containers=containers, through=through)
    read_at = time.time()
    with opened(history_of(plan)) as history:
        counters = counter_families(rules)
        before = records.earlier(history, reading, counters, read_at)
        latest = records.latest(history, reading, counters, read_at)
        records.save(history, reading, read_at)
    report = check(rules, context(plan, reading, before, latest), limit)
    read = [name for name in report.nodes if isinstance(reading.get(name), Record)]
    with opened(history_of(plan)) as history:
        report.findings = findings.noted(
            history, report.findings, {*report.rules, REACHABLE}, read, read_at
        )
    return reading, report
