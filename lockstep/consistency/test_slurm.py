"""Slurm and munge: the controller's view of each worker."""

from lockstep.consistency.plugin import RuleResult


def test_slurm(rule_result: RuleResult) -> None:
    """slurm.conf, node states, munge, pyxis."""
    rule_result.must_hold()
