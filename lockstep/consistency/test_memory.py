"""Memory and huge pages."""

from lockstep.consistency.plugin import RuleResult


def test_memory(rule_result: RuleResult) -> None:
    """Size, modules, errors, swap, huge pages."""
    rule_result.must_hold()
