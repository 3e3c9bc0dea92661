"""``lockstep check INVENTORY``: reads every node once and reports differences."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from typing_extensions import override

from lockstep.checks.engine import check
from lockstep.checks.growth import counter_families
from lockstep.checks.rule import Rule
from lockstep.commands._arguments import (
    WrongUse,
    chosen_rules,
    limited,
    reports_errors,
    require_writable,
    write,
)
from lockstep.commands._check_now import check_now
from lockstep.fleet.gather import Through, ThroughClush, ThroughSlurm
from lockstep.forms import Run
from lockstep.forms.html import html
from lockstep.forms.junit import junit
from lockstep.forms.metrics import metrics
from lockstep.forms.text import text, whole
from lockstep.forms.write import PUBLIC
from lockstep.history.store import PRIVATE
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.probe.parse import dumps
from lockstep.probe.record import Reading, Record, Unreachable, only_records
from lockstep.reading import context, now, saved, saved_of
from lockstep.report import ExitStatus, Report, Severity
from lockstep.spec import Service

if TYPE_CHECKING:
    from lockstep.commands import Subparsers

SLURM, CLUSH = "slurm", "clush"
JOB = re.compile(r"\d+(_\d+)?")
"""A job id; an array task has its index after ``_``."""


@dataclass
class Shown(Report):
    """A report limited to one severity; counts and exit status are those of the whole report."""

    whole: Report = field(default_factory=Report)

    @property
    @override
    def exit_status(self) -> ExitStatus:
        """Return the status of all findings, shown or not."""
        return self.whole.exit_status

    @override
    def summary(self) -> str:
        """Return the counts of all findings, and the number of hidden ones."""
        hidden = len(self.whole.findings) - len(self.findings)
        left_out = f" {hidden} not shown (--severity)." if hidden else ""
        return self.whole.summary() + left_out


def add_parser(subparsers: Subparsers) -> None:
    """Add ``check`` to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="read every node and report differences; changes nothing",
        description="Exit status: 0 all consistent, 1 differences found, 2 no differences but some "
        "values could not be read, 3 usage error.",
    )
    parser.add_argument("inventory", metavar="INVENTORY", help="inventory file")
    parser.add_argument(
        "--limit",
        metavar="NODES",
        action="append",
        help="report on these nodes only: names, worker[01-04], or a role; their peers are still "
        "read; repeatable",
    )
    parser.add_argument(
        "--rule",
        metavar="ID",
        action="append",
        help="check only this rule, or the rules that match a pattern such as 'gpu.*'; repeatable",
    )
    parser.add_argument(
        "--severity",
        choices=[s.value for s in Severity],
        help="show only findings of this severity; the exit status still covers all findings",
    )
    parser.add_argument(
        "--containers",
        action="store_true",
        help="start a container with all GPUs in each container engine and check what it sees",
    )
    parser.add_argument(
        "--through",
        choices=[SLURM, CLUSH],
        help="read the workers with a Slurm job step, or with clush on the controller, through one "
        "connection; workers that this does not reach are read directly",
    )
    parser.add_argument(
        "--job",
        metavar="ID",
        help="with --through slurm: run the step inside this job, which must belong to root; "
        "default: a new job on the idle nodes",
    )
    parser.add_argument(
        "--all", action="store_true", help="print every finding, even if they do not fit a screen"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON; - for stdout")
    parser.add_argument("--junit", metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="write the report as one HTML page")
    parser.add_argument(
        "--metrics", metavar="FILE", help="write metrics for node_exporter's textfile collector"
    )
    parser.add_argument("--records", metavar="FILE", help="check saved records; contact no node")
    parser.add_argument(
        "--earlier", metavar="FILE", help="with --records: compare counters with these records"
    )
    parser.add_argument("--save-records", metavar="FILE", help="save the records to a file as well")
    parser.add_argument(
        "--no-history",
        action="store_true",
        help="do not use the history: save neither the records nor the age of findings",
    )
    parser.set_defaults(run=run)


@reports_errors
def run(arguments: argparse.Namespace) -> int:
    """Run the check; return the exit status."""
    plan = load(arguments.inventory)
    rules = chosen_rules(plan, arguments.rule)
    limit = limited(plan, arguments.limit)
    if arguments.earlier and not arguments.records:
        raise WrongUse("--earlier needs --records; a check of live nodes uses the history")
    through = _through(arguments, plan)
    require_writable(arguments, "json", "junit", "html", "metrics", "save_records")
    began = time.monotonic()
    reading, report = _checked(arguments, plan, rules, limit, through)
    if arguments.save_records:
        write(arguments.save_records, dumps(reading), PRIVATE)
    how = Run(
        inventory=arguments.inventory,
        command=_command(arguments),
        at=_taken_at(reading),
        duration_s=time.monotonic() - began,
        unread=tuple(n for n in report.nodes if isinstance(reading[n], Unreachable)),
        rules=tuple(arguments.rule or ()),
    )
    if arguments.severity:
        report = _only(report, arguments.severity)
    _write_forms(arguments, report, how)
    if arguments.json != "-":
        sys.stdout.write(whole(report) if arguments.all else text(report, how))
    return report.exit_status


def _checked(
    arguments: argparse.Namespace,
    plan: ClusterPlan,
    rules: Sequence[Rule],
    limit: frozenset[str] | None,
    through: Through | None,
) -> tuple[Reading, Report]:
    """Return the records, read or loaded as the options say, and their report."""
    if arguments.records is not None:
        reading = saved_of(plan, arguments.records)
        families = counter_families(rules)
        before = saved(arguments.earlier, families) if arguments.earlier else {}
        return reading, check(rules, context(plan, reading, only_records(before)), limit)
    how = {"containers": arguments.containers, "through": through}
    if arguments.no_history:
        reading = now(plan, **how)
        return reading, check(rules, context(plan, reading), limit)
    return check_now(plan, rules, limit, **how)


def _through(arguments: argparse.Namespace, plan: ClusterPlan) -> Through | None:
    """Return how ``--through`` reads the workers; None: directly.

    Raises:
        WrongUse: the options contradict each other, or the cluster has no scheduler.
    """
    if arguments.job is not None and arguments.through != SLURM:
        raise WrongUse(f"--job {arguments.job} needs --through slurm")
    if arguments.through is None:
        return None
    if arguments.records is not None:
        raise WrongUse(f"--through {arguments.through} cannot be used with --records")
    if plan.running(Service.SLURM_CONTROLLER) is None:
        raise WrongUse(f"--through {arguments.through}: cluster {plan.spec.name} has no scheduler")
    if arguments.through == CLUSH:
        return ThroughClush()
    if arguments.job is not None and not JOB.fullmatch(arguments.job):
        raise WrongUse(f"--job {arguments.job!r}\n  expected  a job id, such as 1042")
    return ThroughSlurm(arguments.job or "")


def _taken_at(reading: Reading) -> float:
    """Return the median time of the records, by the nodes' clocks; now, without records."""
    taken = sorted(got.taken_at for got in reading.values() if isinstance(got, Record))
    return taken[len(taken) // 2] if taken else time.time()


def _only(report: Report, severity: str) -> Shown:
    shown = [finding for finding in report.findings if finding.severity == severity]
    return Shown(report.nodes, report.rules, shown, report.notes, report.off, whole=report)


def _write_forms(arguments: argparse.Namespace, report: Report, how: Run) -> None:
    if arguments.junit:
        write(arguments.junit, junit(report, how))
    if arguments.html:
        write(arguments.html, html(report, how))
    if arguments.metrics:
        write(arguments.metrics, metrics(report, how), PUBLIC)
    if arguments.json:
        write(arguments.json, report.to_json())


def _command(arguments: argparse.Namespace) -> str:
    """Return the command that repeats this check, without its ``--rule`` options."""
    given = vars(arguments)
    words = ["lockstep", "check", arguments.inventory]
    words += [word for value in given["limit"] or () for word in ("--limit", value)]
    for name in ("severity", "records", "earlier"):
        words += [f"--{name}", given[name]] if given[name] else []
    for name in ("containers", "no_history"):
        words += [f"--{name.replace('_', '-')}"] if given[name] else []
    return shlex.join(words)
