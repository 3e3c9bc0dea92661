"""Collectors of metrics: they run once and use little CPU."""

from lockstep.consistency.plugin import RuleResult


def test_monitoring(rule_result: RuleResult) -> None:
    """Settings, number and CPU time of collectors."""
    rule_result.must_hold()
