"""Networks in a draft: rails, their lengths, and two address families at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockstep.describe import Draft
from lockstep.describe.seen import Seen
from lockstep.probe.record import Reading, Record
from tests.checks import recorded
from tests.describe import hosts


def drafted(tmp_path: Path, networks: dict[str, Any], *groups: dict[str, Any]) -> Draft:
    """Return the draft of the recorded nodes with other networks and addresses."""

    def change(description: dict[str, Any]) -> None:
        description["networks"] = networks
        for group, own in zip(description["nodes"], groups, strict=True):
            group |= own

    return hosts.drafted(hosts.read(recorded.clustered(change), tmp_path))


def addresses(draft: Draft) -> list[dict[str, str]]:
    fields = ("management", "management_second", "fabric", "fabric_second")
    return [
        {name: group[name] for name in fields if name in group}
        for group in draft.description["nodes"]
    ]


def test_rails_of_ipv4_with_a_length_of_their_own(tmp_path: Path) -> None:
    networks = {
        "management": {"prefix": "10.20.0.0/16"},
        "fabric": {"prefix": "10.8.0.0/15", "rails": 2, "rail_length": 16},
    }
    groups = ({"management": "10.20.0.1"}, {"management": "10.20.1.1", "fabric": "10.8.1.1"})
    draft = drafted(tmp_path, networks, *groups)
    assert draft.description["networks"] == networks
    assert draft.description["os"]["address_family"] == "ipv4"
    assert addresses(draft) == [*groups]


def test_both_families_of_both_networks(tmp_path: Path) -> None:
    networks = {
        "management": {"prefix": "fd00:1::/64", "second_family": {"prefix": "10.20.0.0/16"}},
        "fabric": {
            "prefix": "fd00:2::/63",
            "rails": 2,
            "second_family": {"prefix": "10.8.0.0/15", "rail_length": 16},
        },
    }
    groups = (
        {"management": "fd00:1::1", "management_second": "10.20.0.9"},
        {
            "management": "fd00:1::101",
            "management_second": "10.20.1.1",
            "fabric": "fd00:2::101",
            "fabric_second": "10.8.1.1",
        },
    )
    draft = drafted(tmp_path, networks, *groups)
    assert draft.description["networks"] == networks
    assert addresses(draft) == [*groups]


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return hosts.read(recorded.consistent(), tmp_path_factory.mktemp("conf"))


def with_addresses(reading: Reading, **more: Any) -> Reading:
    """Return the records in which each worker has the addresses that a function returns."""
    for number in range(1, 9):
        name = f"worker{number}"
        record = reading[name]
        assert isinstance(record, Record)
        own = Seen(name, record).items("describe.addresses")
        of_interfaces = {interface: make(number) for interface, make in more.items()}
        reading = hosts.changed(reading, name, describe__addresses={**own, **of_interfaces})
    return reading


def test_a_second_family_by_router_advertisement_splits_no_group(reading: Reading) -> None:
    found = with_addresses(
        reading, eno1=lambda n: [f"fd00:1::{100 + n}/64", f"10.20.{n * 7 % 5}.{n}/16"]
    )
    head = {"eno1": ["fd00:1::1/64", "10.20.0.1/16"]}
    draft = hosts.drafted(hosts.changed(found, "head1", describe__addresses=head))
    assert "second_family" not in draft.description["networks"]["management"]
    assert draft.description["nodes"][-1]["name"] == "worker[1-8]"
    text = " ".join(draft.text.replace("#", "").split())
    assert (
        "head1,worker[1-8]: the management interface has an address of another family, too." in text
    )


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("10.1.1.{}/24", "10.1.2.{}/24", "2 rails must begin at a multiple of their size"),
        ("10.1.2.{}/24", "10.9.3.{}/24", "rails must be subnets that follow each other"),
        ("10.1.2.{}/24", "10.1.3.1{}/24", "rails must be subnets that follow each other"),
    ],
)
def test_rails_that_no_description_can_have_are_left_out_with_the_reason(
    reading: Reading, first: str, second: str, why: str
) -> None:
    found = with_addresses(
        reading, fabric0=lambda n: [first.format(n)], fabric1=lambda n: [second.format(n)]
    )
    draft = hosts.drafted(found)
    assert "fabric" not in draft.description["networks"]
    text = " ".join(draft.text.replace("#", "").split())
    assert f"no fabric is described: {why}" in text
    assert f"worker1 has {first.format(1)}, {second.format(1)}" in text
    assert draft.description["hardware"]["h200"]["nics"]["interfaces"] == "fabric[0-1]"
    assert draft.problems == ()
