"""Prometheus text exposition, for the textfile collector of node_exporter."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.forms import Run
from lockstep.forms.groups import cleaned, devices, nodes_of
from lockstep.report import Report

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics(report: Report, run: Run) -> str:
    """Return the report as gauges; every finding is one series per node with the value 1."""
    unread = len(run.unread)
    families: tuple[tuple[str, str, Iterable[tuple[str, float]]], ...] = (
        ("finding", "What is out of step, 1 each.", ((found, 1) for found in _findings(report))),
        ("rules", "Rules that were judged.", [("", len(report.rules))]),
        (
            "rule_off",
            "Rules that the site switched off, 1 each; classes: only there.",
            ((_labels(rule=off.rule, classes=",".join(off.classes)), 1) for off in report.off),
        ),
        (
            "nodes",
            "Nodes that were to be read, by what came of it.",
            [
                (_labels(state="read"), len(report.nodes) - unread),
                (_labels(state="unread"), unread),
            ],
        ),
        ("check_timestamp_seconds", "When the nodes were read.", [("", run.at)]),
        ("check_duration_seconds", "How long it took.", [("", run.duration_s)]),
    )
    lines: list[str] = []
    for name, meaning, series in families:
        lines += [f"# HELP lockstep_{name} {meaning}", f"# TYPE lockstep_{name} gauge"]
        lines += [f"lockstep_{name}{labels} {value:.15g}" for labels, value in series]
    return "\n".join(lines) + "\n"


def _findings(report: Report) -> list[str]:
    """Return the labels of every finding once: a series that is there twice is refused."""
    found = {
        _labels(
            rule=finding.rule,
            node=node,
            device=device,
            severity=finding.severity,
            status=finding.status,
        )
        for finding in map(cleaned, report)
        for node in nodes_of(finding)
        for device in devices(finding)
    }
    return sorted(found)


def _labels(**labels: str) -> str:
    pairs = (f'{name}="{value.translate(ESCAPES)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"
