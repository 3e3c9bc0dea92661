"""Processors: the same on all nodes of a class, and kept free for jobs."""

from lockstep.consistency.plugin import RuleResult


def test_cpu(rule_result: RuleResult) -> None:
    """Number, model, microcode, SMT, boost, frequency, NUMA."""
    rule_result.must_hold()


def test_isolation(rule_result: RuleResult) -> None:
    """CPU sets, isolated CPUs, interrupts."""
    rule_result.must_hold()
