"""The rules that the description of the cluster adds."""

from lockstep.consistency.plugin import RuleResult


def test_site(rule_result: RuleResult) -> None:
    """Rules of the site: `checks.rules` of the description."""
    rule_result.must_hold()
