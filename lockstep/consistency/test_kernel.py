"""The kernel: its release, arguments, modules and parameters."""

from lockstep.consistency.plugin import RuleResult


def test_kernel(rule_result: RuleResult) -> None:
    """Release, modules, parameters, faults."""
    rule_result.must_hold()


def test_boot(rule_result: RuleResult) -> None:
    """Kernel arguments, in force and for the next boot."""
    rule_result.must_hold()
