"""The check of networks with IPv6 and IPv4 at once, against recorded nodes."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lockstep.checks.context import Context
from tests.checks import recorded

NODE = "worker3"


@cache
def cluster() -> Context:
    def change(wanted: dict[str, Any]) -> None:
        networks = wanted["networks"]
        networks["management"]["second_family"] = {
            "prefix": "10.0.0.0/16",
            "gateway": "10.0.255.254",
        }
        networks["fabric"]["second_family"] = {"prefix": "10.8.0.0/13", "rail_length": 16}
        for number, group in enumerate(wanted["nodes"]):
            group["management_second"] = f"10.0.{number}.1"
            if "fabric" in group:
                group["fabric_second"] = f"10.8.{number}.1"

    return recorded.clustered(change)


def test_the_check_finds_nothing_after_a_deploy() -> None:
    plan = cluster().plan.nodes[NODE]
    assert [len(one.assigned) for one in plan.interfaces] == [2] * 3
    assert recorded.report(cluster()).findings == []


def address(what: str) -> str:
    return cluster().plan.nodes[NODE].addresses[what]


@pytest.mark.parametrize(
    ("rule", "reading", "path", "value", "device", "found"),
    [
        (
            *("net.address", "net.addresses", ("fabric1",), lambda: [address("rail1")]),
            *("rail1 (ipv4)", "on no interface"),
        ),
        (
            *("net.address", "net.addresses", ("eno1",), lambda: [address("management")]),
            *("management (ipv4)", "on no interface"),
        ),
        (
            *("net.gateway", "net.gateway", ("ipv4", "eno1"), lambda: ["10.0.0.9"]),
            *("eno1", "10.0.0.9"),
        ),
        (
            *("net.persisted", "net.persisted", ("ifupdown eno1", "addresses")),
            lambda: [f"{address('management')}/64"],
            *("eno1", f"{address('management')}/64, router"),
        ),
        (
            *("net.unplanned_address", "net.addresses", ("fabric1",)),
            lambda: [address("rail1"), address("rail1 (ipv4)"), "10.99.0.1"],
            *("fabric1", "10.99.0.1"),
        ),
    ],
)
def test_what_a_node_lacks_of_the_second_family_is_one_finding(
    rule: str, reading: str, path: tuple[str, ...], value: Any, device: str, found: str
) -> None:
    changed = recorded.mutated(cluster(), NODE, reading, path, value())
    one = recorded.only(recorded.report(changed).findings)
    assert (one.rule, one.node, one.device) == (rule, NODE, device)
    assert found in one.found


def test_a_lost_address_of_a_rail_is_repaired_by_the_role_network() -> None:
    changed = recorded.mutated(cluster(), NODE, "net.addresses", ("fabric1",), [address("rail1")])
    one = recorded.only(recorded.report(changed).findings)
    assert one.roles == ("network",)
