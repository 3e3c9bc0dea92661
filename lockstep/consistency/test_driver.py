"""The NVIDIA driver: one version in the kernel, on disk and in the library."""

from lockstep.consistency.plugin import RuleResult


def test_driver(rule_result: RuleResult) -> None:
    """Versions, flavour and parameters of the driver's module, and the library."""
    rule_result.must_hold()
