"""``lockstep compare INVENTORY INVENTORY``: two clusters that should be identical."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.checks.context import Context
from lockstep.checks.difference import Comparison
from lockstep.checks.engine import check_together
from lockstep.checks.plans import classes_apart, differing
from lockstep.checks.rule import Kind, Rule
from lockstep.commands._asked import WrongUse, answered, chosen_rules, write
from lockstep.files import managed
from lockstep.forms import Run, with_rules
from lockstep.forms.text import BLOCKS, text, whole
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.reading import context, now, saved_of
from lockstep.report import ExitStatus, Report, count

if TYPE_CHECKING:
    from lockstep.commands import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    """Add ``compare`` to the command line."""
    parser = subparsers.add_parser(
        "compare",
        help="compare two clusters that should be identical: their plans, then their nodes",
        description="Nodes of equal hardware classes are peers over both clusters. "
        "Exit status: 0 identical, 1 something differs, 2 only readings are missing, 3 wrong use.",
    )
    parser.add_argument("inventories", metavar="INVENTORY", nargs=2, help="two inventory files")
    parser.add_argument(
        "--plans", action="store_true", help="compare what they are to be; contact no node"
    )
    parser.add_argument(
        "--records",
        metavar="FILE",
        nargs=2,
        help="judge saved records of the one and the other; contact no node",
    )
    parser.add_argument(
        "--rule",
        metavar="ID",
        action="append",
        help="judge by this rule only, or these: 'gpu.*'; repeatable",
    )
    parser.add_argument(
        "--all", action="store_true", help="print everything, also where a screen cannot hold it"
    )
    parser.add_argument("--json", metavar="FILE", help="write it as JSON; - for stdout")
    parser.set_defaults(run=run)


@answered
def run(arguments: argparse.Namespace) -> int:
    """Compare; return the exit status."""
    plans = [load(path) for path in arguments.inventories]
    labels = _labels(*plans)
    # Where their rules differ, so do the plans, and those of the first one judge.
    rules = chosen_rules(plans[0], arguments.rule)
    found = Comparison(differing(plans[0], plans[1], partial(managed, secrets=None)))
    begin = time.time()
    report = None if arguments.plans else _judged(plans, labels, arguments, rules)
    status = ExitStatus.CONSISTENT if report is None else report.exit_status
    if found.differences:
        status = ExitStatus.DIFFERS
    if arguments.json:
        write(arguments.json, _document(labels, found, report, status))
    if arguments.json != "-":
        _print(arguments, labels, found)
        if report is not None:
            how = Run(
                arguments.inventories[0],
                _command(arguments),
                begin,
                time.time() - begin,
                rules=tuple(arguments.rule or ()),
            )
            sys.stdout.write("\n" + (whole(report) if arguments.all else text(report, how)))
    return status


def _print(arguments: argparse.Namespace, labels: tuple[str, str], found: Comparison) -> None:
    """Print where the plans differ, as far as a screen holds it."""
    shown = found.differences if arguments.all else found.differences[:BLOCKS]
    sys.stdout.write(Comparison(shown).to_text(*labels))
    left_out = len(found.differences) - len(shown)
    if left_out:
        again = with_rules(_command(arguments), arguments.rule or ())
        print(f"... and {count(left_out, 'more place')}: {again} --all\n")
    total = count(len(found.differences), "difference") if found.differences else "no differences"
    print(f"plans of {' and '.join(labels)}: {total}.")


def _judged(
    plans: list[ClusterPlan],
    labels: tuple[str, str],
    arguments: argparse.Namespace,
    rules: Sequence[Rule],
) -> Report:
    apart = classes_apart(*plans)
    contexts = [
        replace(judged, label=label, apart=apart)
        for label, judged in zip(labels, _contexts(plans, arguments), strict=True)
    ]
    # What grew is of one node alone.
    return check_together([rule for rule in rules if rule.kind is not Kind.GROWTH], contexts)


def _document(
    labels: tuple[str, str], found: Comparison, report: Report | None, status: ExitStatus
) -> str:
    """Return everything for programs; ``report`` is null where only plans were compared."""
    document = {
        "format": 1,
        "exit_status": int(status),
        "sides": labels,
        "plans": [asdict(one) for one in found.differences],
        "report": report and report.document(),
    }
    return json.dumps(document, indent=2) + "\n"


def _command(arguments: argparse.Namespace) -> str:
    """Return the command that compares the same again, but for its rules."""
    words = ["lockstep", "compare", *arguments.inventories]
    words += ["--plans"] if arguments.plans else []
    words += ["--records", *arguments.records] if arguments.records else []
    return shlex.join(words)


def _contexts(plans: list[ClusterPlan], arguments: argparse.Namespace) -> list[Context]:
    if arguments.records:
        return [
            context(plan, saved_of(plan, path))
            for plan, path in zip(plans, arguments.records, strict=True)
        ]
    return [context(plan, now(plan)) for plan in plans]


def _labels(left: ClusterPlan, right: ClusterPlan) -> tuple[str, str]:
    """Return what findings call the clusters: their names, or their files where these are equal."""
    names = left.spec.name, right.spec.name
    if names[0] == names[1]:
        names = Path(left.inventory).stem, Path(right.inventory).stem
    if names[0] == names[1]:
        raise WrongUse(
            f"both clusters are named {left.spec.name!r}, and so are their files\n"
            "  expected  two names, so that a finding can say which one it is of"
        )
    return names
