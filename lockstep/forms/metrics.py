"""Prometheus text output for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterable

from lockstep.forms import Run
from lockstep.forms.groups import cleaned, devices, nodes_of
from lockstep.report import Report

ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def metrics(report: Report, run: Run) -> str:
    """Return the report as gauges; each finding has a series with value 1 per node and device."""
    unread = len(run.unread)
    families: tuple[tuple[str, str, Iterable[tuple[str, float]]], ...] = (
        ("finding", "One series per finding, value 1.", ((f, 1) for f in _findings(report))),
        ("rules", "Number of rules checked.", [("", len(report.rules))]),
        ("accepted", "Number of accepted differences.", [("", len(report.accepted))]),
        (
            "rule_off",
            "Rules switched off by the site, value 1; empty classes mean all hardware classes.",
            ((_labels(rule=off.rule, classes=",".join(off.classes)), 1) for off in report.off),
        ),
        (
            "nodes",
            "Number of nodes by read state.",
            [
                (_labels(state="read"), len(report.nodes) - unread),
                (_labels(state="unread"), unread),
            ],
        ),
        ("check_timestamp_seconds", "Unix time of the check.", [("", run.at)]),
        ("check_duration_seconds", "Duration of the check.", [("", run.duration_s)]),
    )
    lines: list[str] = []
    for name, meaning, series in families:
        lines += [f"# HELP lockstep_{name} {meaning}", f"# TYPE lockstep_{name} gauge"]
        lines += [f"lockstep_{name}{labels} {value:.15g}" for labels, value in series]
    return "\n".join(lines) + "\n"


def _findings(report: Report) -> list[str]:
    """Return the labels of all findings without duplicates, which Prometheus rejects."""
    labels = {
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
    return sorted(labels)


def _labels(**labels: str) -> str:
    pairs = (f'{name}="{value.translate(ESCAPES)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"
