"""``lockstep explain``: shows a rule with its reasons, or a node with its findings."""

from __future__ import annotations

import argparse
import textwrap
import time
from collections.abc import Sequence

from lockstep.checks.catalogue import all_rules
from lockstep.checks.engine import REACHABLE, check
from lockstep.checks.growth import counter_families
from lockstep.checks.rule import Rule
from lockstep.checks.site import rules_of
from lockstep.commands import Argument, Command, WrongUse, no_rule, node_named
from lockstep.commands.rules import described, references
from lockstep.forms.text import whole
from lockstep.history import findings, records, store
from lockstep.inventory import load
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.reading import context, history_of, kept, now
from lockstep.report import ExitStatus, Report, fold
from lockstep.spec.checks import SiteRule
from lockstep.when import utc

FORMS = """\
lockstep explain RULE
       lockstep explain INVENTORY RULE
       lockstep explain INVENTORY NODE [--fresh]"""
WIDTH = 100
LABEL = 13


def _run(arguments: argparse.Namespace) -> int:
    *inventories, name = arguments.what
    if len(inventories) > 1 or (not inventories and (name.endswith(".py") or arguments.fresh)):
        raise WrongUse(
            f"lockstep explain {' '.join(arguments.what)}: wrong arguments\n  expected  {FORMS}"
        )
    inventory = inventories[0] if inventories else "INVENTORY"
    plan = load(inventory) if inventories else None
    known = {rule.id: rule for rule in (rules_of(plan.spec) if plan else all_rules())}
    if name in known:
        print(_rule(known[name], inventory, plan.spec.checks.rules if plan else ()))
        return ExitStatus.CONSISTENT
    if plan is None:
        raise WrongUse(
            f"{no_rule(name, known)}\n  next      for a node: lockstep explain INVENTORY {name}"
        )
    if "." in name and name not in plan.nodes:
        raise no_rule(name, known)
    node = node_named(plan, name)
    report, origin = _judged(plan, name, inventory, fresh=arguments.fresh)
    print("\n".join(_about(node, origin)) + "\n")
    print(whole(report), end="")
    return report.exit_status


def _rule(rule: Rule, inventory: str, own: Sequence[SiteRule]) -> str:
    rows = [
        *((label.lower(), text.replace("`", "")) for label, text in described(rule, own)),
        ("compared", rule.kind.value),
        ("from", ", ".join(references(rule))),
        ("severity", rule.severity.differs.value),
        ("repaired by", rule.repair.owner),
        ("check it", f"lockstep check {inventory} --rule {rule.id}"),
    ]
    return "\n".join([textwrap.fill(f"{rule.id}: {rule.claim}", WIDTH), *_lines(rows)])


def _judged(plan: ClusterPlan, name: str, inventory: str, *, fresh: bool) -> tuple[Report, str]:
    """Return the report on a node, and a text that says where its record comes from.

    Raises:
        WrongUse: the node has no saved record.
    """
    reading = now(plan) if fresh else None
    rules = rules_of(plan.spec)
    counters = counter_families(rules)
    with store.opened(history_of(plan)) as history:
        times = records.times(history, name)
        read_at = time.time() if fresh or not times else times[-1]
        reading = reading or kept(plan, history)
        earlier = records.earlier(history, {name: reading[name]}, counters, read_at)
        report = check(rules, context(plan, reading, *earlier), [name])
        report.findings = findings.remembered(history, report.findings)
    if fresh:
        return report, f"read now, {utc(read_at)}"
    newest = (
        f"from {utc(read_at)}, the newest of {len(times)} since {utc(times[0])}"
        if times
        else "none saved"
    )
    down = next((finding for finding in report.findings if finding.rule == REACHABLE), None)
    if down is None:
        return report, newest
    if not down.since:
        raise WrongUse(
            f"no saved record of {name}\n  next      lockstep explain {inventory} {name} --fresh"
        )
    return report, f"unreachable since {down.history}; before that: {newest}"


def _about(node: NodePlan, origin: str) -> list[str]:
    hardware = node.hardware
    peers = [
        other.name
        for other in node.cluster.nodes.values()
        if other.hardware is hardware and other.name != node.name
    ]
    pages = [
        f"{count} of {size} on node{numa}"
        for size, split in hardware.hugepages.items()
        for numa, count in split.items()
    ]
    gpu, nics, stack = node.gpu, hardware.hardware.nics, node.spec.software.nvidia
    rows = [
        ("record", origin),
        ("peers", fold(peers) or "none: it is the only node of its hardware class and release"),
        ("runs", ", ".join(service.value for service in node.node.runs)),
        ("GPUs", f"{gpu.count} x {gpu.name}" if gpu else ""),
        ("NICs", f"{nics.count}, RDMA: {nics.rdma}" if nics.count else ""),
        ("driver", stack.driver if stack and node.nvidia else ""),
        ("huge pages", ", ".join(pages)),
        ("kernel", " ".join(node.system.kernel_args)),
        ("whole plan", f"lockstep plan {node.cluster.inventory} {node.name}"),
    ]
    return [
        f"{node.name}: {node.role.value} of class {hardware.name}, {node.address}",
        *_lines([(label, text) for label, text in rows if text]),
    ]


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


COMMAND = Command(
    run=_run,
    usage=FORMS,
    help="show why a rule exists, or everything known about a node",
    description="For a node: the findings in its newest record, its peers and its plan. "
    "Exit status: 0 for a rule; for a node, the exit status of lockstep check; 3 usage error.",
    arguments=(
        Argument(
            "what",
            metavar="RULE | INVENTORY RULE | INVENTORY NODE",
            nargs="+",
            help="a rule (lockstep rules lists them) or a node",
        ),
        Argument(
            "--fresh", action="store_true", help="read all nodes now instead of using saved records"
        ),
    ),
)
