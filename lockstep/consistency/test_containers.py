"""Containers: they get all GPUs, devices and CPUs of their node."""

from lockstep.consistency.plugin import RuleResult


def test_containers(rule_result: RuleResult) -> None:
    """CDI, and what a container sees with each engine."""
    rule_result.must_hold()
