"""``lockstep compare INVENTORY INVENTORY``: two clusters that should be identical."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.difference import Comparison
from lockstep.checks.engine import check_together
from lockstep.checks.plans import classes_apart, differing
from lockstep.checks.rule import Kind
from lockstep.commands._asked import WrongUse, answered
from lockstep.files import managed
from lockstep.forms.text import whole
from lockstep.inventory import load
from lockstep.plan import ClusterPlan
from lockstep.reading import context, now, saved_of
from lockstep.report import ExitStatus

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
    parser.set_defaults(run=run)


@answered
def run(arguments: argparse.Namespace) -> int:
    """Compare; return the exit status."""
    plans = [load(path) for path in arguments.inventories]
    left, right = _labels(*plans)
    found = Comparison(differing(plans[0], plans[1], partial(managed, secrets=None)))
    sys.stdout.write(found.to_text(left, right))
    count = len(found.differences)
    print(f"plans of {left} and {right}: {count or 'no'} difference{'' if count == 1 else 's'}.")
    if arguments.plans:
        return ExitStatus.DIFFERS if count else ExitStatus.CONSISTENT
    print()
    apart = classes_apart(*plans)
    contexts = [
        replace(judged, label=label, apart=apart)
        for label, judged in zip((left, right), _contexts(plans, arguments), strict=True)
    ]
    rules = [rule for rule in all_rules() if rule.kind is not Kind.GROWTH]  # of one node alone
    report = check_together(rules, contexts)
    sys.stdout.write(whole(report))
    return ExitStatus.DIFFERS if count else report.exit_status


def _contexts(plans: list[ClusterPlan], arguments: argparse.Namespace) -> list[Context]:
    if arguments.records:
        return [
            context(plan, saved_of(plan, path))
            for plan, path in zip(plans, arguments.records, strict=True)
        ]
    return [
        context(plan, now(plan, path))
        for plan, path in zip(plans, arguments.inventories, strict=True)
    ]


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
