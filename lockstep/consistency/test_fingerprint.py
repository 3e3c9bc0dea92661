"""The whole configuration of the nodes, also what no rule names."""

from lockstep.consistency.plugin import RuleResult


def test_fingerprint(rule_result: RuleResult) -> None:
    """Objects that differ between nodes of the same role and hardware."""
    rule_result.must_hold()
