"""The check of the packet filter: a rule that is lost, or one too many, is one finding."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lockstep.checks.context import Context
from tests.checks import recorded
from tests.checks.recorded_fingerprint import objects, with_objects

NODE = "worker3"


@cache
def cluster(kind: str = "nftables") -> Context:
    return recorded.clustered(lambda wanted: wanted["os"].update(firewall={"kind": kind}))


def loaded(kind: str) -> list[str]:
    return list(cluster(kind).plan.nodes[NODE].firewall.rules)


@pytest.mark.parametrize("kind", ["nftables", "firewalld"])
def test_the_check_finds_nothing_after_a_deploy(kind: str) -> None:
    assert recorded.report(cluster(kind)).findings == []


@pytest.mark.parametrize("kind", ["nftables", "firewalld"])
def test_a_lost_rule_or_one_too_many_is_one_finding_of_the_role(kind: str) -> None:
    rules = loaded(kind)
    extra = "tcp dport 99 accept"
    for value, found in (
        ("absent", "no rules"),
        ([*rules[:3], *rules[4:]], f"missing: {rules[3]}"),
        ([*rules, extra], f"additional: {extra}"),
        ([*rules[:3], rules[4], rules[3], *rules[5:]], "in another order"),
    ):
        changed = recorded.mutated(cluster(kind), NODE, "firewall.rules", (kind,), value)
        one = recorded.only(recorded.report(changed))
        assert (one.rule, one.node, one.device) == ("firewall.rules", NODE, kind)
        assert found in one.found
        assert one.roles == ("firewall",)
        assert "--data roles=firewall" in one.repair


def test_rules_that_cannot_be_read_are_never_right() -> None:
    unread = {"unread": "nft: exit 1: Operation not permitted"}
    changed = recorded.mutated(cluster(), NODE, "firewall.rules", ("nftables",), unread)
    one = recorded.only(recorded.report(changed))
    assert (one.rule, one.status) == ("firewall.rules", "unknown")


@pytest.mark.parametrize(
    ("reading", "path", "value", "rule"),
    [
        ("units", ("lockstep-firewall.service", "active"), "inactive", "unit.active"),
        (
            "units",
            ("firewalld.service",),
            {"active": "active", "sub": "running", "enabled": "enabled", "load": "loaded"},
            "unit.masked",
        ),
        ("packages", ("nftables",), recorded.REMOVED, "package.present"),
        ("files", ("/etc/lockstep/firewall.nft", "sha256"), "0" * 64, "file.content"),
    ],
)
def test_what_takes_the_rules_away_is_the_one_finding(
    reading: str, path: tuple[str, ...], value: Any, rule: str
) -> None:
    changed = recorded.mutated(cluster(), NODE, "firewall.rules", ("nftables",), "absent")
    changed = recorded.mutated(changed, NODE, reading, path, value)
    one = recorded.only(recorded.report(changed))
    assert one.rule == rule


def test_the_fingerprint_does_not_tell_it_again() -> None:
    healthy: dict[str, Any] = {
        name: objects(name, node.address) for name, node in cluster().plan.nodes.items()
    }
    for domains in healthy.values():
        domains["firewall"]["table inet lockstep"] = {"flags": ""}
        domains["firewall"]["inet lockstep chain input"] = {"rules": "reject"}
    address = cluster().plan.nodes[NODE].address
    broken = {**healthy, NODE: {**healthy[NODE], "firewall": objects(NODE, address)["firewall"]}}
    changed = recorded.mutated(cluster(), NODE, "firewall.rules", ("nftables",), "absent")
    found = recorded.report(with_objects(changed, broken)).findings
    assert [(one.rule, one.node) for one in found if one.node == NODE] == [("firewall.rules", NODE)]
