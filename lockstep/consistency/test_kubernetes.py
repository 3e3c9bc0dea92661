"""Kubernetes: the API server's view of each node, and what the node has itself."""

from lockstep.consistency.plugin import RuleResult


def test_kubernetes(rule_result: RuleResult) -> None:
    """Nodes, kubelets, labels and taints, routes, certificates, static pods, kube-proxy."""
    rule_result.must_hold()
