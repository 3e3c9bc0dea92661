"""``lockstep check INVENTORY``: reads every node once and reports differences."""

from __future__ import annotations

import argparse
import re
import shlex
import time
from collections.abc import Sequence
from functools import partial
from statistics import median_high

from lockstep.checks.engine import check
from lockstep.checks.growth import counter_families
from lockstep.checks.rule import Rule
from lockstep.checks.site import rules_of
from lockstep.commands import (
    INVENTORY,
    PUBLIC,
    RULE,
    Argument,
    Command,
    WrongUse,
    chosen_rules,
    limit,
    limited,
    require_writable,
    screen,
    show,
    write,
)
from lockstep.fleet import through as programs
from lockstep.forms import Run, html, junit, metrics, text
from lockstep.history.store import PRIVATE
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.probe.parse import dumps
from lockstep.probe.record import Reading, Unreachable, only_records
from lockstep.reading import accepted, check_now, context, now, saved, saved_of
from lockstep.report import Report, Severity, alike
from lockstep.spec import Service

SLURM, CLUSH = "slurm", "clush"


def _run(arguments: argparse.Namespace) -> int:
    plan = load(arguments.inventory)
    rules = chosen_rules(plan, arguments.rule)
    nodes = limited(plan, arguments.limit)
    if arguments.earlier and not arguments.records:
        raise WrongUse("--earlier needs --records; a check of live nodes uses the history")
    through = _through(arguments, plan)
    require_writable(arguments, "json", "junit", "html", "metrics", "save_records")
    accepted(plan)  # report a malformed file before reading any node
    began = time.monotonic()
    reading, report = _checked(arguments, plan, rules, nodes, through)
    if arguments.save_records:
        write(arguments.save_records, dumps(reading), PRIVATE)
    taken = [record.taken_at for record in only_records(reading).values()]
    how = Run(
        inventory=arguments.inventory,
        command=_command(arguments),
        at=median_high(taken) if taken else time.time(),
        duration_s=time.monotonic() - began,
        cluster=plan.spec.name,
        titles={rule.id: rule.claim for rule in rules_of(plan.spec)},
        unread=tuple(n for n in report.nodes if isinstance(reading[n], Unreachable)),
        rules=tuple(arguments.rule or ()),
        severity=arguments.severity or "",
        **screen(),
    )
    if arguments.severity:
        chosen = alike(report.findings, lambda finding: finding.severity == arguments.severity)
        report.findings, report.hidden = chosen.get(True, []), chosen.get(False, [])
    for path, form, mode in (
        (arguments.junit, junit.junit, None),
        (arguments.html, html.html, None),
        (arguments.metrics, metrics.metrics, PUBLIC),
    ):
        if path:
            write(path, form(report, how), mode)
    shown = partial(text.whole, report) if arguments.all else partial(text.text, report, how)
    show(arguments.json, report.document, shown)
    return report.exit_status


def _checked(
    arguments: argparse.Namespace,
    plan: ClusterPlan,
    rules: Sequence[Rule],
    nodes: frozenset[str] | None,
    through: str,
) -> tuple[Reading, Report]:
    """Read the nodes or load saved records; return the records and their report."""
    how = {
        "containers": arguments.containers,
        "through": through,
        "fingerprint": not arguments.no_fingerprint,
        "slow": arguments.slow,
    }
    if arguments.records is None and not arguments.no_history:
        return check_now(plan, rules, nodes, settled=arguments.settled, **how)
    reading = now(plan, **how) if arguments.records is None else saved_of(plan, arguments.records)
    before = saved(arguments.earlier, counter_families(rules)) if arguments.earlier else {}
    return reading, check(rules, context(plan, reading, only_records(before)), nodes)


def _through(arguments: argparse.Namespace, plan: ClusterPlan) -> str:
    """Return the program that reads the workers (``Share.through``); "" to read them directly.

    Raises:
        WrongUse: the options contradict each other, the job id is malformed, or the cluster has no
            Slurm controller.
    """
    job, through = arguments.job, arguments.through
    no_scheduler = plan.running(Service.SLURM_CONTROLLER) is None
    for wrong, problem in (
        (job is not None and through != SLURM, f"--job {job} needs --through slurm"),
        (
            arguments.slow and (arguments.no_fingerprint or arguments.records),
            "--slow needs fingerprints of live nodes: leave out --no-fingerprint and --records",
        ),
        (
            arguments.settled and (arguments.records or arguments.no_history),
            "--settled needs live nodes and the history: leave out --records and --no-history",
        ),
        (through and arguments.records, f"--through {through} cannot be used with --records"),
        (
            through and no_scheduler,
            f"--through {through}: cluster {plan.spec.name} has no Slurm controller",
        ),
        (
            # The id of an array task ends with an underscore and the index of the task.
            job is not None and not re.fullmatch(r"\d+(_\d+)?", job),
            f"--job {job!r}: malformed job id\n  expected  an id such as 1042 or 1042_7",
        ),
    ):
        if wrong:
            raise WrongUse(problem)
    if through == CLUSH:
        return programs.CLUSH
    return f"{programs.SLURM}{job or ''}" if through else ""


def _command(arguments: argparse.Namespace) -> str:
    """Return the command that repeats this check, without its ``--rule`` options."""
    given = vars(arguments)
    options = [
        *(word for nodes in given["limit"] or () for word in ("--limit", nodes)),
        *(
            word
            for name in ("severity", "records", "earlier")
            for word in (f"--{name}", given[name])
            if given[name]
        ),
        *(
            f"--{name.replace('_', '-')}"
            for name in ("containers", "slow", "settled", "no_fingerprint", "no_history")
            if given[name]
        ),
    ]
    return shlex.join(["lockstep", "check", arguments.inventory, *options])


COMMAND = Command(
    run=_run,
    help="read every node and report differences; changes nothing",
    description="Exit status: 0 all consistent, 1 differences found, 2 no differences but some "
    "values could not be read, 3 usage error.",
    arguments=(
        INVENTORY,
        limit("report on", peers=True),
        RULE,
        Argument(
            "--severity",
            choices=[severity.value for severity in Severity],
            help="show only findings of this severity; the exit status still covers all findings",
        ),
        Argument(
            "--containers",
            action="store_true",
            help="in each container engine, start a container with all GPUs and check what it sees",
        ),
        Argument(
            "--slow",
            action="store_true",
            help="read programs below /usr and login shells now, which nodes otherwise read once "
            "a day, and nodes that Lockstep does not deploy never",
        ),
        Argument(
            "--settled",
            action="store_true",
            help="compare the nodes of --limit only with nodes that need neither a deploy nor a "
            "reboot, and that Lockstep has not drained; deploys do this before Slurm resumes a "
            "worker",
        ),
        Argument(
            "--no-fingerprint",
            action="store_true",
            help="compare only what rules name, not the whole configuration of the nodes",
        ),
        Argument(
            "--through",
            choices=[SLURM, CLUSH],
            help="read the workers with a Slurm job step, or with clush on the controller, over "
            "one connection; workers that cannot be reached this way are read directly",
        ),
        Argument(
            "--job",
            metavar="ID",
            help="with --through slurm: run the step inside this job, which must belong to root; "
            "default: a new job on the idle nodes",
        ),
        Argument(
            "--all",
            action="store_true",
            help="print all findings, also notices and what does not fit on one screen",
        ),
        Argument("--json", metavar="FILE", help="write the report as JSON; - for stdout"),
        Argument("--junit", metavar="FILE", help="write the report as JUnit XML"),
        Argument("--html", metavar="FILE", help="write the report as one HTML page"),
        Argument(
            "--metrics",
            metavar="FILE",
            help="write metrics for node_exporter's textfile collector",
        ),
        Argument(
            "--records", metavar="FILE", help="check saved records without contacting any node"
        ),
        Argument(
            "--earlier",
            metavar="FILE",
            help="with --records: compare counters with these records",
        ),
        Argument("--save-records", metavar="FILE", help="also save the records to this file"),
        Argument(
            "--no-history",
            action="store_true",
            help="do not use the history: save neither the records nor the age of findings",
        ),
    ),
)
