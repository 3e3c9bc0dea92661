"""Text output of ``lockstep repair``: the deploys to run, then the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lockstep.forms import joined
from lockstep.forms.groups import merged
from lockstep.report import Finding, Report, count, fold

LINES = 20
"""Maximum number of lines per reason; `lockstep check` shows all findings."""


def planned(command: str, nodes: Sequence[str], roles: Sequence[str], why: Report) -> str:
    """Return the text for one deploy: its command, nodes, roles and findings."""
    mine = [f for f in why if f.roles and f.node in nodes]
    rows = [
        ("nodes", fold(nodes)),
        ("roles", ", ".join(roles)),
        ("findings", ", ".join(dict.fromkeys(finding.rule for finding in mine))),
    ]
    return "\n".join([command, *(f"  {name:10}{text}" for name, text in rows)]) + "\n"


def outcome(
    report: Report,
    repaired: Iterable[Finding],
    left: Mapping[str, Sequence[Finding]],
    reboot: str,
    failed: Sequence[str],
) -> str:
    """Return the repaired findings, the remaining ones with reasons, and the counts.

    Args:
        report: report of the last check.
        repaired: findings that no longer exist.
        left: reason -> findings.
        reboot: the command for pending reboots; "" when there are none.
        failed: commands that failed.
    """
    gone = list(repaired)
    lines = [f"failed: {command}" for command in failed]
    lines += ["repaired", *_rows(gone, with_repair=False)] if gone else []
    for why, findings in left.items():
        waits = reboot if "reboot" in why else ""
        lines.append(f"left, {why}" + (f": {waits}" if waits else ""))
        lines += _rows(findings, with_repair=not waits)
    still = count(sum(map(len, left.values())), "finding")
    parts = ", ".join(f"{len(findings)} {why}" for why, findings in left.items())
    ending = f"{still} left: {parts}." if left else "all consistent."
    return "\n".join([*lines, *report.notes, f"{len(gone)} repaired, {ending}"])


def _rows(findings: Sequence[Finding], *, with_repair: bool) -> list[str]:
    whole = Report(findings=list(findings))
    rows = [
        joined((f"  {one.rule:24}", one.node, one.device))
        + (f"\n    repair  {one.repair}" if with_repair else "")
        for one in merged(whole)
    ]
    more = [f"  ... and {len(rows) - LINES} more"] if len(rows) > LINES else []
    return [*rows[:LINES], *more]
