"""The networks: interfaces and addresses; RDMA ports and their settings."""

from lockstep.consistency.plugin import RuleResult


def test_net(rule_result: RuleResult) -> None:
    """Interfaces: addresses, MTU, speed, driver, queues, errors."""
    rule_result.must_hold()


def test_net_files(rule_result: RuleResult) -> None:
    """The files that configure interfaces at the next boot."""
    rule_result.must_hold()


def test_rdma(rule_result: RuleResult) -> None:
    """RDMA devices: number, firmware, driver, settings."""
    rule_result.must_hold()


def test_rdma_ports(rule_result: RuleResult) -> None:
    """RDMA ports: state, rate, errors."""
    rule_result.must_hold()


def test_roce(rule_result: RuleResult) -> None:
    """RoCE: priorities, PFC, ECN, adaptive routing."""
    rule_result.must_hold()


def test_firewall(rule_result: RuleResult) -> None:
    """The packet filter: the rules that are loaded."""
    rule_result.must_hold()
