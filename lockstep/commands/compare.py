"""``lockstep compare INVENTORY INVENTORY``: compares two clusters that should be identical."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from lockstep.checks.difference import Comparison
from lockstep.checks.engine import check_together
from lockstep.checks.plans import classes_apart, differing
from lockstep.checks.rule import Kind, Rule
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.commands import (
    JSON,
    RULE,
    Argument,
    Command,
    WrongUse,
    chosen_rules,
    require_writable,
    show,
)
from lockstep.files import managed
from lockstep.forms import Run
from lockstep.forms.text import BLOCKS, text, whole
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.reading import accepted, context, now, saved_of, with_common_branches
from lockstep.report import ExitStatus, Report, count


def _run(arguments: argparse.Namespace) -> int:
    require_writable(arguments, "json")
    plans = [load(path) for path in arguments.inventories]
    for plan in plans:
        accepted(plan)  # report a malformed file before reading any node
    labels = _labels(*plans)
    # If the clusters' rules differ, the plans differ too; use the rules of the first cluster.
    rules = chosen_rules(plans[0], arguments.rule)
    found = Comparison(differing(plans[0], plans[1], partial(managed, secrets=None)))
    begin = time.time()
    report = None if arguments.plans else _checked(plans, labels, arguments, rules)
    status = ExitStatus.DIFFERS if found.differences else (report or Report()).exit_status
    how = Run(
        arguments.inventories[0],
        _command(arguments),
        begin,
        time.time() - begin,
        rules=tuple(arguments.rule or ()),
    )
    shown = _plans(labels, found, how, every=arguments.all)
    if report is not None:
        shown += "\n" + (whole(report) if arguments.all else text(report, how))
    document = {
        "format": 1,
        "exit_status": int(status),
        "sides": labels,
        "plans": [asdict(one) for one in found.differences],
        "report": report and report.document(),
    }
    show(arguments.json, lambda: document, lambda: shown)
    return status


def _plans(labels: tuple[str, str], found: Comparison, how: Run, *, every: bool) -> str:
    """Return the plans' differences as text: all if ``every`` is true, otherwise the first few."""
    total = len(found.differences)
    shown = found.differences if every else found.differences[:BLOCKS]
    lines = Comparison(shown).to_text(*labels)
    if len(shown) < total:
        lines += (
            f"... and {count(total - len(shown), 'more difference')}: "
            f"{how.alone(*how.rules)} --all\n\n"
        )
    number = count(total, "difference") if total else "no differences"
    return f"{lines}plans of {' and '.join(labels)}: {number}.\n"


def _checked(
    plans: list[ClusterPlan],
    labels: tuple[str, str],
    arguments: argparse.Namespace,
    rules: Sequence[Rule],
) -> Report:
    apart, live = classes_apart(*plans), not arguments.records
    hashed = not arguments.no_fingerprint
    readings = (
        [now(plan, fingerprint=hashed, branches=False) for plan in plans]
        if live
        else [saved_of(plan, path) for plan, path in zip(plans, arguments.records, strict=True)]
    )
    contexts = [
        replace(context(plan, reading), label=label, redefined=apart)
        for plan, reading, label in zip(plans, readings, labels, strict=True)
    ]
    if live and hashed:
        contexts = with_common_branches(contexts)
    # A counter's growth concerns only its own node, so there is nothing to compare.
    left_out = () if hashed else (FAMILY,)
    compared = [
        rule for rule in rules if rule.kind is not Kind.GROWTH and not rule.id.startswith(left_out)
    ]
    return check_together(compared, contexts)


def _command(arguments: argparse.Namespace) -> str:
    """Return the command that repeats this comparison, without its ``--rule`` options."""
    plans = ["--plans"] if arguments.plans else []
    plans += ["--no-fingerprint"] if arguments.no_fingerprint else []
    saved = ["--records", *arguments.records] if arguments.records else []
    return shlex.join(["lockstep", "compare", *arguments.inventories, *plans, *saved])


def _labels(left: ClusterPlan, right: ClusterPlan) -> tuple[str, str]:
    """Return labels for the two clusters: their names or, if these are equal, their file names."""
    stems = Path(left.inventory).stem, Path(right.inventory).stem
    for names in ((left.spec.name, right.spec.name), stems):
        if names[0] != names[1]:
            return names
    raise WrongUse(
        f"both clusters are named {left.spec.name!r}, and their files have the same name\n"
        "  expected  different cluster names or file names, to tell their findings apart"
    )


COMMAND = Command(
    run=_run,
    help="compare two clusters that should be identical: first their plans, then their nodes",
    description="Nodes of identical hardware classes are peers across both clusters. "
    "Exit status: 0 identical, 1 differences found, 2 no differences but some values could "
    "not be read, 3 usage error.",
    arguments=(
        Argument("inventories", metavar="INVENTORY", nargs=2, help="two inventory files"),
        Argument(
            "--plans",
            action="store_true",
            help="compare only the plans, without contacting any node",
        ),
        Argument(
            "--records",
            metavar="FILE",
            nargs=2,
            help="compare saved records of the two clusters without contacting any node",
        ),
        Argument(
            "--no-fingerprint",
            action="store_true",
            help="compare only what rules name, not the whole configuration of the nodes",
        ),
        RULE,
        Argument(
            "--all",
            action="store_true",
            help="print everything, even if it does not fit on one screen",
        ),
        JSON,
    ),
)
