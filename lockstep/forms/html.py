"""HTML output: one self-contained page with a matrix of nodes by rules, outliers first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.forms import Run
from lockstep.forms.groups import Group, devices, grouped, label, nodes_of, rank
from lockstep.render import page
from lockstep.report import Finding, Report, Status, fold
from lockstep.when import utc

PLACES = 200
"""Maximum number of places shown per value; the text and JSON reports have all."""


@dataclass(frozen=True)
class Cell:
    """Result of one rule on one node."""

    label: str
    devices: int


@dataclass(frozen=True)
class Row:
    """Nodes with identical results: the same rules, each with the same number of devices."""

    nodes: str
    number: int
    cells: tuple[Cell | None, ...]


def html(report: Report, run: Run) -> str:
    """Return the report as one HTML page."""
    groups = grouped(report)
    worst: dict[str, Group] = {}
    for group in groups:
        worst.setdefault(group.rule, group)
    by_node = _by_node(report)
    kept = [rule for rule in report.rules if rule not in worst]
    consistent = [node for node in report.nodes if node not in by_node]
    return page(
        "html.j2",
        report=report,
        run=run,
        read_at=utc(run.at),
        wrong=len(report.with_status(Status.DIFFERS, Status.UNDECIDED)),
        pending=len(report.with_status(Status.PENDING_REBOOT)),
        unread=len(report.with_status(Status.UNKNOWN)),
        columns=list(worst.values()),
        rows=_rows(by_node, tuple(worst)),
        groups=groups,
        kept=sorted(kept),
        consistent=fold(consistent),
        consistent_nodes=len(consistent),
        places=PLACES,
    )


def _by_node(findings: Iterable[Finding]) -> dict[str, dict[str, list[Finding]]]:
    """Return node -> rule -> findings; a finding about several nodes counts for each of them."""
    found: dict[str, dict[str, list[Finding]]] = {}
    for finding in findings:
        for node in nodes_of(finding):
            found.setdefault(node, {}).setdefault(finding.rule, []).append(finding)
    return found


def _rows(by_node: dict[str, dict[str, list[Finding]]], rules: tuple[str, ...]) -> list[Row]:
    alike: dict[tuple[Cell | None, ...], list[str]] = {}
    for node, found in by_node.items():
        cells = tuple(_cell(found[rule]) if rule in found else None for rule in rules)
        alike.setdefault(cells, []).append(node)
    rows = [Row(fold(nodes), len(nodes), cells) for cells, nodes in alike.items()]
    return sorted(rows, key=_outlier)


def _cell(findings: list[Finding]) -> Cell:
    worst = min(findings, key=rank)
    return Cell(label(worst.status, worst.severity), sum(len(devices(f)) for f in findings))


def _outlier(row: Row) -> tuple[int, int, str]:
    """Return a sort key: most errors first, then most findings."""
    cells = [cell for cell in row.cells if cell is not None]
    errors = sum(cell.label == "ERROR" for cell in cells)
    return -errors, -len(cells), row.nodes
