"""HTML output: one self-contained page with the findings as a matrix, by rule and by node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import attrgetter

from lockstep.forms import Run
from lockstep.forms.groups import anchor, devices, grouped, merged, nodes_of, rank
from lockstep.render import page
from lockstep.report import Finding, Report, Status, alike, fold
from lockstep.when import utc

PLACES = 200
"""Maximum number of places shown per value; the JSON report lists all of them."""
IN_FULL = 5_000
"""Maximum number of findings for which the part of each node repeats titles and repairs."""


WORDS = {
    "ERROR": "error",
    "WARNING": "warning",
    "NOTICE": "notice",
    "REBOOT": "waiting for a reboot",
    "UNKNOWN": "not read",
}
"""Label of a finding (``Finding.label``) -> its meaning."""


@dataclass(frozen=True)
class Cell:
    """Result of one rule on one node."""

    label: str
    devices: int


@dataclass(frozen=True)
class OfNode:
    """All findings of one node."""

    name: str
    number: int
    """Number of findings; one finding is one rule on the node or on one of its devices."""
    labels: dict[str, int]
    """Label -> number of findings, the worst first."""
    findings: list[Finding]
    """Findings that differ only in the device are merged."""


Row = tuple[str, int, tuple[Cell | None, ...]]
"""Nodes with the same results for all rules: their folded names, their number and the results."""


def html(report: Report, run: Run) -> str:
    """Return the report as one HTML page."""
    groups = grouped(report)
    by_rule = alike(groups, attrgetter("first.rule"))
    # A finding about several nodes counts for each of them.
    on_nodes = [(node, finding) for finding in report for node in nodes_of(finding)]
    found = alike(on_nodes, lambda one: (one[0], one[1].rule))
    of_node = alike(on_nodes, lambda one: one[0])
    cells = {place: _cell([finding for _, finding in same]) for place, same in found.items()}
    wrong = dict.fromkeys(node for node, _ in cells)
    rows = alike(wrong, lambda node: tuple(cells.get((node, rule)) for rule in by_rule))
    consistent = [node for node in report.nodes if node not in wrong]
    number = Counter(Status(finding.status) for finding in report.findings)
    return page(
        "html.j2",
        report=report,
        run=run,
        cluster=run.cluster or run.inventory,
        read_at=utc(run.at),
        number=len(report.findings),
        anchor=anchor,
        words=WORDS,
        titles=run.titles,
        labels=Counter(finding.label for finding in report.findings),
        in_full=len(report.findings) <= IN_FULL,
        wrong=number[Status.DIFFERS] + number[Status.UNDECIDED],
        pending=number[Status.PENDING_REBOOT],
        unread=number[Status.UNKNOWN],
        columns=[same[0] for same in by_rule.values()],
        rows=sorted(
            ((fold(nodes), len(nodes), results) for results, nodes in rows.items()), key=_outlier
        ),
        groups=groups,
        nodes=[
            _of_node(node, [finding for _, finding in of_node[node]])
            for node in report.nodes
            if node in of_node
        ],
        kept=sorted(set(report.rules).difference(by_rule)),
        consistent=fold(consistent),
        consistent_nodes=len(consistent),
        places=PLACES,
    )


def _cell(findings: list[Finding]) -> Cell:
    worst = min(findings, key=rank)
    return Cell(worst.label, sum(len(devices(f)) for f in findings))


def _of_node(name: str, findings: list[Finding]) -> OfNode:
    ranked = sorted(findings, key=rank)
    labels = Counter(finding.label for finding in ranked)
    return OfNode(name, len(findings), labels, merged(ranked))


def _outlier(row: Row) -> tuple[int, int, str]:
    """Return a sort key: rows with the most errors come first, then rows with the most findings."""
    nodes, _, results = row
    labels = [cell.label for cell in results if cell is not None]
    return -labels.count("ERROR"), -len(labels), nodes
