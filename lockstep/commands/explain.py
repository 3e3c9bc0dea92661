"""``lockstep explain``: shows a rule with its reasons, or a node with its findings."""

from __future__ import annotations

import argparse
import sqlite3
import textwrap
import time
from typing import TYPE_CHECKING

from lockstep.checks.catalogue import all_rules
from lockstep.checks.engine import REACHABLE, check
from lockstep.checks.growth import counter_families
from lockstep.checks.rule import Rule
from lockstep.checks.site import rules_of
from lockstep.commands._arguments import WrongUse, no_node, no_rule, reports_errors
from lockstep.commands.rules import described, references
from lockstep.forms.text import whole
from lockstep.history import findings, records
from lockstep.history.store import opened
from lockstep.inventory import load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.record import Reading
from lockstep.reading import context, history_of, kept, now
from lockstep.report import ExitStatus, Report, fold
from lockstep.when import utc

if TYPE_CHECKING:
    from lockstep.commands import Subparsers

FORMS = """\
lockstep explain RULE
       lockstep explain INVENTORY RULE
       lockstep explain INVENTORY NODE [--fresh]"""
WIDTH = 100
LABEL = 13


def add_parser(subparsers: Subparsers) -> None:
    """Add ``explain`` to the command line."""
    parser = subparsers.add_parser(
        "explain",
        usage=FORMS,
        help="show why a rule exists, or everything known about a node",
        description="For a node: the findings in its newest record, its peers and its plan. "
        "Exit status: for a node that of lockstep check, for a rule 0; 3 usage error.",
    )
    parser.add_argument(
        "what",
        metavar="RULE | INVENTORY RULE | INVENTORY NODE",
        nargs="+",
        help="a rule (lockstep rules lists them) or a node",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="read all nodes now instead of using saved records"
    )
    parser.set_defaults(run=run)


@reports_errors
def run(arguments: argparse.Namespace) -> int:
    """Print the explanation; return the exit status."""
    what = arguments.what
    if len(what) == 2:
        return _of_cluster(*what, fresh=arguments.fresh)
    if len(what) > 2 or what[0].endswith(".py") or arguments.fresh:
        raise WrongUse(f"lockstep explain {' '.join(what)}: wrong arguments\n  expected  {FORMS}")
    known = {rule.id: rule for rule in all_rules()}
    if what[0] not in known:
        raise WrongUse(
            f"{no_rule(what[0], known)}\n  node      lockstep explain INVENTORY {what[0]}"
        )
    print(_rule(known[what[0]], "INVENTORY"))
    return ExitStatus.CONSISTENT


def _of_cluster(inventory: str, name: str, *, fresh: bool) -> int:
    plan = load(inventory)
    known = {rule.id: rule for rule in rules_of(plan.spec)}
    if name in plan.nodes:
        return _node(plan, inventory, name, fresh=fresh)
    if name not in known:
        raise no_rule(name, known) if "." in name else no_node(name, plan.nodes)
    print(_rule(known[name], inventory))
    return ExitStatus.CONSISTENT


def _rule(rule: Rule, inventory: str) -> str:
    rows = [
        *((label.lower(), text.replace("`", "")) for label, text in described(rule)),
        ("compared", rule.kind.value),
        ("from", ", ".join(references(rule))),
        ("severity", rule.severity.differs.value),
        ("repaired by", rule.repair.owner),
        ("check it", f"lockstep check {inventory} --rule {rule.id}"),
    ]
    return "\n".join([f"{rule.id}: {rule.claim}", *_lines(rows)])


def _node(plan: ClusterPlan, inventory: str, name: str, *, fresh: bool) -> int:
    report, read_at = _fresh(plan, name) if fresh else _kept(plan, inventory, name)
    print("\n".join(_about(plan.nodes[name], read_at)) + "\n")
    print(whole(report), end="")
    return report.exit_status


def _fresh(plan: ClusterPlan, name: str) -> tuple[Report, str]:
    reading = now(plan)
    read_at = time.time()
    with opened(history_of(plan)) as history:
        report = _report(plan, reading, history, name, read_at)
    return report, f"read now, {utc(read_at)}"


def _kept(plan: ClusterPlan, inventory: str, name: str) -> tuple[Report, str]:
    with opened(history_of(plan)) as history:
        times, reading = records.times(history, name), kept(plan, history)
        report = _report(plan, reading, history, name, times[-1] if times else time.time())
    kept_since = _since(times) if times else "none saved"
    down = next((finding for finding in report.findings if finding.rule == REACHABLE), None)
    if down is None:
        return report, kept_since
    if not down.since:
        raise WrongUse(
            f"no saved record of {name}\n  next      lockstep explain {inventory} {name} --fresh"
        )
    return report, f"unreachable since {down.history}; before that: {kept_since}"


def _since(times: list[float]) -> str:
    return f"from {utc(times[-1])}, the newest of {len(times)} since {utc(times[0])}"


def _report(
    plan: ClusterPlan, reading: Reading, history: sqlite3.Connection, name: str, read_at: float
) -> Report:
    rules = rules_of(plan.spec)
    mine, counters = {name: reading[name]}, counter_families(rules)
    before = records.earlier(history, mine, counters, read_at)
    latest = records.latest(history, mine, counters, read_at)
    report = check(rules, context(plan, reading, before, latest), [name])
    report.findings = findings.remembered(history, report.findings)
    return report


def _about(node: NodePlan, read_at: str) -> list[str]:
    hardware = node.hardware
    peers = [
        other.name
        for other in node.cluster.nodes.values()
        if other.hardware.name == hardware.name and other.name != node.name
    ]
    pages = [
        f"{count} of {size} on node{numa}"
        for size, split in hardware.hugepages.items()
        for numa, count in split.items()
    ]
    gpu, nics, stack = node.gpu, hardware.hardware.nics, node.spec.software.nvidia
    rows = [
        ("record", read_at),
        ("peers", fold(peers) or "none: it is the only node of its hardware class"),
        ("runs", ", ".join(service.value for service in node.node.runs)),
        ("GPUs", f"{gpu.count} x {gpu.model}" if gpu else ""),
        ("NICs", f"{nics.count}, RDMA: {nics.rdma}" if nics.count else ""),
        ("driver", stack.driver if stack and node.nvidia else ""),
        ("huge pages", ", ".join(pages)),
        ("kernel", " ".join(node.kernel_args)),
        ("whole plan", f"lockstep plan {node.cluster.inventory} {node.name}"),
    ]
    head = f"{node.name}: {node.role.value} of class {hardware.name}, {node.address}"
    return [head, *_lines([(label, text) for label, text in rows if text])]


def _lines(rows: list[tuple[str, str]]) -> list[str]:
    """Return ``  label  text`` lines, with wrapped text indented under the first line."""
    return [
        textwrap.fill(
            text,
            WIDTH,
            initial_indent=f"  {label:{LABEL}}",
            subsequent_indent=" " * (LABEL + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for label, text in rows
    ]
