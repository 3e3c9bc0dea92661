"""``lockstep check INVENTORY``: reads every node once and names what is out of step."""

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
from lockstep.commands._asked import WrongUse, answered, chosen_rules, limited, write
from lockstep.commands._judged import judged
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
"""Of an array with its index."""


@dataclass
class Shown(Report):
    """The findings of one severity. What they are out of decides the counts and the status."""

    whole: Report = field(default_factory=Report)

    @property
    @override
    def exit_status(self) -> ExitStatus:
        """Return the status of all findings, shown or not."""
        return self.whole.exit_status

    @override
    def summary(self) -> str:
        """Return the counts of all findings, and how many of them are not shown."""
        hidden = len(self.whole.findings) - len(self.findings)
        left_out = f" {hidden} of them not shown (--severity)." if hidden else ""
        return self.whole.summary() + left_out


def add_parser(subparsers: Subparsers) -> None:
    """Add ``check`` to the command line."""
    parser = subparsers.add_parser(
        "check",
        help="read every node and name what is out of step; changes nothing",
        description="Exit status: 0 consistent, 1 something differs, 2 only readings are missing, "
        "3 wrong use.",
    )
    parser.add_argument("inventory", metavar="INVENTORY", help="inventory file")
    parser.add_argument(
        "--limit",
        metavar="NODES",
        action="append",
        help="report on these nodes only: names, worker[01-04], or a role; peers are read as well; "
        "repeatable",
    )
    parser.add_argument(
        "--rule",
        metavar="ID",
        action="append",
        help="this rule only, or these: 'gpu.*'; repeatable",
    )
    parser.add_argument(
        "--severity",
        choices=[s.value for s in Severity],
        help="show findings of this severity only; the exit status counts all",
    )
    parser.add_argument(
        "--containers",
        action="store_true",
        help="have each container engine start one container with all GPUs, and read what it sees",
    )
    parser.add_argument(
        "--through",
        choices=[SLURM, CLUSH],
        help="have a step of Slurm, or clush on the controller, read the workers: one connection "
        "in all; those that it does not reach are read directly",
    )
    parser.add_argument(
        "--job",
        metavar="ID",
        help="with --through slurm: inside this job of root's, beside what runs in it; without: on "
        "the idle nodes",
    )
    parser.add_argument(
        "--all", action="store_true", help="print every finding, also where a screen cannot hold it"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON; - for stdout")
    parser.add_argument("--junit", metavar="FILE", help="write the report as JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="write the report as one page of HTML")
    parser.add_argument(
        "--metrics", metavar="FILE", help="write it for the textfile collector of node_exporter"
    )
    parser.add_argument("--records", metavar="FILE", help="judge saved records; contact no node")
    parser.add_argument(
        "--earlier", metavar="FILE", help="with --records: counters are compared with these"
    )
    parser.add_argument("--save-records", metavar="FILE", help="keep what was read in a file, too")
    parser.add_argument(
        "--no-history",
        action="store_true",
        help="keep nothing: neither what was read nor since when a finding is found",
    )
    parser.set_defaults(run=run)


@answered
def run(arguments: argparse.Namespace) -> int:
    """Check; return the exit status."""
    plan = load(arguments.inventory)
    rules = chosen_rules(plan, arguments.rule)
    limit = limited(plan, arguments.limit)
    if arguments.earlier and not arguments.records:
        raise WrongUse("--earlier FILE without --records FILE: nodes have a history of their own")
    through = _through(arguments, plan)
    began = time.monotonic()
    reading, report = _judged(arguments, plan, rules, limit, through)
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


def _judged(
    arguments: argparse.Namespace,
    plan: ClusterPlan,
    rules: Sequence[Rule],
    limit: frozenset[str] | None,
    through: Through | None,
) -> tuple[Reading, Report]:
    """Return the records that were asked for, and the report of them."""
    if arguments.records is not None:
        reading = saved_of(plan, arguments.records)
        families = counter_families(rules)
        before = saved(arguments.earlier, families) if arguments.earlier else {}
        return reading, check(rules, context(plan, reading, only_records(before)), limit)
    how = {"containers": arguments.containers, "through": through}
    if arguments.no_history:
        reading = now(plan, **how)
        return reading, check(rules, context(plan, reading), limit)
    return judged(plan, rules, limit, **how)


def _through(arguments: argparse.Namespace, plan: ClusterPlan) -> Through | None:
    """Return the way that was asked for; None: directly.

    Raises:
        WrongUse: there is no such way.
    """
    if arguments.job is not None and arguments.through != SLURM:
        raise WrongUse(f"--job {arguments.job} without --through slurm")
    if arguments.through is None:
        return None
    if arguments.records is not None:
        raise WrongUse(f"--through {arguments.through} with --records FILE, which contacts no node")
    if plan.running(Service.SLURM_CONTROLLER) is None:
        raise WrongUse(f"--through {arguments.through}: {plan.spec.name} has no scheduler")
    if arguments.through == CLUSH:
        return ThroughClush()
    if arguments.job is not None and not JOB.fullmatch(arguments.job):
        raise WrongUse(f"--job {arguments.job!r}\n  expected  a job's number, such as 1042")
    return ThroughSlurm(arguments.job or "")


def _taken_at(reading: Reading) -> float:
    """Return when the nodes were read, by most of their clocks; now, where none was read."""
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
    """Return the command that finds the same again, but for its rules."""
    given = vars(arguments)
    words = ["lockstep", "check", arguments.inventory]
    words += [word for value in given["limit"] or () for word in ("--limit", value)]
    for name in ("severity", "records", "earlier"):
        words += [f"--{name}", given[name]] if given[name] else []
    for name in ("containers", "no_history"):
        words += [f"--{name.replace('_', '-')}"] if given[name] else []
    return shlex.join(words)
