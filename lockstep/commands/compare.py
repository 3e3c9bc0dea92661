"""``lockstep compare INVENTORY INVENTORY``: compares two clusters that should be identical."""

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
from lockstep.commands._arguments import (
    WrongUse,
    chosen_rules,
    reports_errors,
    require_writable,
    write,
)
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
        help="compare two clusters that should be identical: first their plans, then their nodes",
        description="Nodes of identical hardware classes are peers across both clusters. "
        "Exit status: 0 identical, 1 differences found, 2 no differences but some values could "
        "not be read, 3 usage error.",
    )
    parser.add_argument("inventories", metavar="INVENTORY", nargs=2, help="two inventory files")
    parser.add_argument(
        "--plans", action="store_true", help="compare the plans only; contact no node"
    )
    parser.add_argument(
        "--records",
        metavar="FILE",
        nargs=2,
        help="compare saved records of the two clusters; contact no node",
    )
    parser.add_argument(
        "--rule",
        metavar="ID",
        action="append",
        help="check only this rule, or the rules that match a pattern such as 'gpu.*'; repeatable",
    )
    parser.add_argument(
        "--all", action="store_true", help="print everything, even if it does not fit a screen"
    )
    parser.add_argument("--json", metavar="FILE", help="write the result as JSON; - for stdout")
    parser.set_defaults(run=run)


@reports_errors
def run(arguments: argparse.Namespace) -> int:
    """Run the comparison; return the exit status."""
    require_writable(arguments, "json")
    plans = [load(path) for path in arguments.inventories]
    labels = _labels(*plans)
    # If the clusters' rules differ, the plans differ too; use the rules of the first cluster.
    rules = chosen_rules(plans[0], arguments.rule)
    found = Comparison(differing(plans[0], plans[1], partial(managed, secrets=None)))
    begin = time.time()
    report = None if arguments.plans else _checked(plans, labels, arguments, rules)
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
    """Print the differences of the plans, as many as fit on a screen."""
    shown = found.differences if arguments.all else found.differences[:BLOCKS]
    sys.stdout.write(Comparison(shown).to_text(*labels))
    left_out = len(found.differences) - len(shown)
    if left_out:
        again = with_rules(_command(arguments), arguments.rule or ())
        print(f"... and {count(left_out, 'more difference')}: {again} --all\n")
    total = count(len(found.differences), "difference") if found.differences else "no differences"
    print(f"plans of {' and '.join(labels)}: {total}.")


def _checked(
    plans: list[ClusterPlan],
    labels: tuple[str, str],
    arguments: argparse.Namespace,
    rules: Sequence[Rule],
) -> Report:
    apart = classes_apart(*plans)
    contexts = [
        replace(judged, label=label, redefined=apart)
        for label, judged in zip(labels, _contexts(plans, arguments), strict=True)
    ]
    # Growth of a counter concerns one node only; there is nothing to compare.
    return check_together([rule for rule in rules if rule.kind is not Kind.GROWTH], contexts)


def _document(
    labels: tuple[str, str], found: Comparison, report: Report | None, status: ExitStatus
) -> str:
    """Return the JSON document; ``report`` is null when only plans were compared."""
    document = {
        "format": 1,
        "exit_status": int(status),
        "sides": labels,
        "plans": [asdict(one) for one in found.differences],
        "report": report and report.document(),
    }
    return json.dumps(document, indent=2) + "\n"


def _command(arguments: argparse.Namespace) -> str:
    """Return the command that repeats this comparison, without its ``--rule`` options."""
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
    """Return names for the two clusters: their own, or those of their files if these are equal."""
    names = left.spec.name, right.spec.name
    if names[0] == names[1]:
        names = Path(left.inventory).stem, Path(right.inventory).stem
    if names[0] == names[1]:
        raise WrongUse(
            f"both clusters are named {left.spec.name!r}, and their files have the same name\n"
            "  expected  different cluster or file names, to tell the clusters apart in findings"
        )
    return names
