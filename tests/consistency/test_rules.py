"""One test per rule: the cluster of --inventory keeps it on every node."""

from __future__ import annotations

import pytest

from lockstep.report import Finding, Status, sentence


def test_rule(rule: str, findings: list[Finding]) -> None:
    unread = [finding for finding in findings if finding.status == Status.UNKNOWN.value]
    wrong = [finding for finding in findings if finding.status != Status.UNKNOWN.value]
    lines = [sentence(finding) for finding in wrong]
    lines += [f"unknown: {sentence(finding)}" for finding in unread]
    if lines:
        pytest.fail("\n".join(lines), pytrace=False)
