"""One test per rule: every node of --inventory satisfies it."""

from __future__ import annotations

import pytest

from lockstep.forms.groups import grouped
from lockstep.forms.text import paragraph
from lockstep.report import Finding


def test_rule(rule: str, findings: list[Finding]) -> None:
    if findings:
        pytest.fail(paragraph(grouped(findings)), pytrace=False)
