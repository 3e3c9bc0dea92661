"""The interfaces that Lockstep configures: which, by which program, and what the files say."""

from typing import Any

import pytest

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles import declared
from lockstep.spec import load
from tests.plan.example import planned
from tests.spec.example import description

RAILS = "fabric[0-7]"


def networked(
    fabric: dict[str, Any], management: dict[str, Any] | None = None, **nics: Any
) -> dict[str, Any]:
    wanted = description()
    wanted["networks"]["fabric"] |= fabric
    wanted["networks"]["management"] |= management or {}
    wanted["hardware"]["hgx"]["nics"] = {"count": 8, "interfaces": RAILS, **nics}
    for hardware in wanted["hardware"].values():
        hardware["management_interface"] = "eno1"
    return wanted


def worker(wanted: dict[str, Any]) -> NodePlan:
    plan = planned(lambda other: other.update(wanted))
    return next(node for node in plan.nodes.values() if node.is_worker)


def text(node: NodePlan, path: str) -> str:
    (content,) = (one.content for one in managed(node, None, "network") if one.path == path)
    return content.decode()


@pytest.mark.parametrize(
    ("prefix", "gateway", "allowed"),
    [
        ("10.0.0.0/16", "10.0.255.254", ""),
        ("10.0.0.0/16", "10.0.255.255", "an address in 10.0.0.0/16"),
        ("10.0.0.0/16", "10.0.0.0", "an address in 10.0.0.0/16"),
        ("10.0.0.0/16", "169.254.0.1", "an address in 10.0.0.0/16"),
        ("10.0.0.0/16", "10.0.3.1", "the address of a router; worker1 has this one"),
        ("fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff", ""),
        ("fd00:1::/64", "fe80::1", ""),
        ("fd00:1::/64", "fe80::1:0:0:1", ""),
        ("fd00:1::/64", "10.0.0.1", "an address in fd00:1::/64, or a link-local one"),
    ],
)
def test_a_router_is_a_neighbour_of_the_nodes_and_none_of_them(
    prefix: str, gateway: str, allowed: str
) -> None:
    wanted = networked({}, {"prefix": prefix, "manager": "release", "gateway": gateway})
    if prefix.startswith("10."):
        for number, group in enumerate(wanted["nodes"]):
            group["management"] = f"10.0.{number + 1}.1"
    _, problems = load(wanted, declared())
    assert [one.allowed for one in problems] == [allowed][: bool(allowed)]


def test_a_link_local_router_is_the_same_on_every_rail() -> None:
    """Every link has link-local addresses of its own."""
    node = worker(networked({"manager": "networkd", "gateway": "fe80::1"}))
    assert {one.assigned[0].gateway for one in node.interfaces} == {"fe80::1"}


def test_without_a_manager_no_interface_is_touched() -> None:
    node = worker(networked({}))
    assert (node.interfaces, "network" in node.roles) == ((), False)


@pytest.mark.parametrize(
    ("release", "manager", "packages"),
    [
        ("debian_12", "ifupdown", ("ifupdown",)),
        ("debian_13", "ifupdown", ("ifupdown",)),
        ("ubuntu_24_04", "netplan", ("netplan.io",)),
    ],
)
def test_the_usual_program_follows_from_the_release(
    release: str, manager: str, packages: tuple[str, ...]
) -> None:
    wanted = networked({"manager": "release"})
    wanted["os"]["release"] = release
    node = worker(wanted)
    assert {one.manager for one in node.interfaces} == {manager}
    assert node.software.by_role["network"] == packages


def test_the_management_interface_is_configured_only_if_its_own_network_says_so() -> None:
    rails = worker(networked({"manager": "networkd"})).interfaces
    assert [one.purpose for one in rails] == [f"rail{number}" for number in range(8)]
    both = worker(networked({"manager": "networkd"}, {"manager": "ifupdown"})).interfaces
    assert [(one.name, one.manager) for one in both[:2]] == [
        ("eno1", "ifupdown"),
        ("fabric0", "networkd"),
    ]


def test_each_rail_has_its_own_subnet_router_and_table() -> None:
    node = worker(networked({"manager": "networkd", "gateway": "fd00:2::ffff", "mtu": 4200}))
    third = node.interfaces[2]
    (own_address,) = third.assigned
    assert own_address.prefix == "fd00:2:0:2::/64"
    assert own_address.gateway == "fd00:2:0:2::ffff"
    assert third.table == 1002
    own = str(node.node.fabric[2])
    lines = text(node, "/etc/systemd/network/10-lockstep-fabric2.network").splitlines()
    assert [line for line in lines if "=" in line] == [
        "Name=fabric2",
        "MTUBytes=4200",
        "RequiredForOnline=no",
        f"Address={own}/64",
        "DHCP=no",
        "IPv6AcceptRA=no",
        "LinkLocalAddressing=ipv6",
        "ConfigureWithoutCarrier=yes",
        "Destination=fd00:2:0:2::/64",
        "Table=1002",
        "Gateway=fd00:2:0:2::ffff",
        "Table=1002",
        f"From={own}",
        "Table=1002",
        "Priority=1002",
    ]


def test_two_nodes_of_a_kind_have_their_own_addresses() -> None:
    """The list of a kind's files is made once, their content is not."""
    wanted = networked({"manager": "networkd"})
    plan = planned(lambda other: other.update(wanted))
    first, second, *_ = (node for node in plan.nodes.values() if node.is_worker)
    path = "/etc/systemd/network/10-lockstep-fabric0.network"
    for node in (first, second):
        assert f"Address={node.node.fabric[0]}/64" in text(node, path)


@pytest.mark.parametrize("first", [True, False])
def test_of_one_class_a_node_without_rails_has_no_files_of_rails(first: bool) -> None:
    wanted = networked({"manager": "networkd"}, {"manager": "networkd"})
    wanted["nodes"] += [
        {"name": "login1", "role": "head", "hardware": "hgx", "management": "fd00:1::5:1"},
        {"name": "login2", "role": "head", "hardware": "hgx", "management": "fd00:1::5:2"},
    ]
    wanted["nodes"][-2 if first else -1]["fabric"] = "fd00:2::5:1"
    plan = planned(lambda other: other.update(wanted))
    for name in ("login1", "login2"):
        node = plan.nodes[name]
        found = [one.path for one in managed(node, None, "network")]
        assert len(found) == len(node.interfaces) == (9 if node.node.fabric else 1)


def test_a_rail_never_has_a_default_route_in_the_main_table() -> None:
    wanted = networked({"manager": "ifupdown", "gateway": "fd00:2::ffff"})
    lines = text(worker(wanted), "/etc/network/interfaces.d/50-lockstep-rails").splitlines()
    assert [line for line in lines if "default" in line and " table 10" not in line] == []
    assert not any(line.strip().startswith("gateway") for line in lines)


def test_ipv4_has_the_length_of_the_whole_network() -> None:
    wanted = networked({"manager": "ifupdown"}, {"manager": "ifupdown"})
    wanted["networks"] = {
        "management": {"prefix": "10.0.0.0/16", "manager": "ifupdown", "gateway": "10.0.0.254"},
        "fabric": {"prefix": "10.1.0.0/20", "manager": "ifupdown"},
    }
    for number, group in enumerate(wanted["nodes"]):
        group["management"] = f"10.0.{number}.1"
        if "fabric" in group:
            group["fabric"] = f"10.1.{number}.1"
    wanted["hardware"]["hgx"]["nics"] = {"count": 1, "interfaces": "fabric0"}
    node = worker(wanted)
    shown = text(node, "/etc/network/interfaces.d/50-lockstep")
    assert (
        f"iface eno1 inet static\n    address {node.address}/16\n    gateway 10.0.0.254\n" in shown
    )
    rails = text(node, "/etc/network/interfaces.d/50-lockstep-rails")
    assert f"iface fabric0 inet static\n    address {node.node.fabric[0]}/20\n" in rails
    assert ("fabric0" in shown, "eno1" in rails) == (False, False)
    assert "    accept_ra" not in shown + rails


def test_ipv4_rails_have_a_subnet_each() -> None:
    wanted = networked(
        {"prefix": "10.8.0.0/13", "rail_length": 16, "gateway": "10.8.255.254"},
        manager_only := {"manager": "ifupdown"},
    )
    wanted["networks"]["fabric"] |= manager_only
    for number, group in enumerate(wanted["nodes"]):
        if "fabric" in group:
            group["fabric"] = f"10.8.{number}.1"
    node = worker(wanted)
    assert [str(one) for one in node.node.fabric] == [f"10.{8 + n}.2.1" for n in range(8)]
    fourth = next(one for one in node.interfaces if one.purpose == "rail3")
    (own_address,) = fourth.assigned
    assert (own_address.with_length, own_address.prefix) == ("10.11.2.1/16", "10.11.0.0/16")
    assert own_address.gateway == "10.11.255.254"
    shown = text(node, "/etc/network/interfaces.d/50-lockstep-rails")
    assert "iface fabric3 inet static\n    address 10.11.2.1/16\n" in shown


DUAL = {"prefix": "10.8.0.0/13", "rail_length": 16, "gateway": "10.8.255.254"}


def dual(manager: str = "networkd") -> dict[str, Any]:
    """A description with IPv6 and IPv4 in both networks."""
    wanted = networked(
        {"manager": manager, "second_family": dict(DUAL)},
        {
            "manager": manager,
            "gateway": "fd00:1::ffff",
            "second_family": {"prefix": "10.0.0.0/16", "gateway": "10.0.255.254"},
        },
    )
    for number, group in enumerate(wanted["nodes"]):
        group["management_second"] = f"10.0.{number}.1"
        if "fabric" in group:
            group["fabric_second"] = f"10.8.{number}.1"
    return wanted


def test_a_network_of_two_families_gives_every_interface_an_address_of_both() -> None:
    node = worker(dual())
    management, first, *_, last = node.interfaces
    shown = [[own.with_length for own in one.assigned] for one in (management, first, last)]
    assert shown == [
        [f"{node.address}/64", "10.0.2.1/16"],
        [f"{node.node.fabric[0]}/64", "10.8.2.1/16"],
        [f"{node.node.fabric[7]}/64", "10.15.2.1/16"],
    ]
    assert management.routers == ("fd00:1::ffff", "10.0.255.254")
    assert [one.gateway for one in last.assigned] == ["", "10.15.255.254"]
    assert node.addresses["rail7 (ipv4)"] == "10.15.2.1"
    assert node.addresses["management"] == node.address
    # Everything else keeps to the first family.
    assert node.address_family == "ipv6"
    assert {address for address, _ in node.cluster.hosts}.isdisjoint({"10.0.2.1"})


@pytest.mark.parametrize(
    ("change", "where", "value", "allowed"),
    [
        (
            lambda w: w["networks"]["management"]["second_family"].update(
                prefix="fd00:9::/64", gateway=None
            ),
            ("networks", "management", "second_family", "prefix"),
            "fd00:9::/64",
            "an IPv4 network: the first family of this network has fd00:1::/64",
        ),
        (
            lambda w: w["nodes"][0].pop("management_second"),
            ("nodes", 0, "management_second"),
            "no address",
            "the first node's address in networks.management.second_family, 10.0.0.0/16",
        ),
        (
            lambda w: w["nodes"][2].pop("fabric"),
            ("nodes", 2, "fabric"),
            "no address",
            "the first node's address in networks.fabric, fd00:2::/64",
        ),
        (
            lambda w: w["networks"]["fabric"].pop("second_family"),
            ("nodes", 2, "fabric_second"),
            "10.8.2.1 and 31 more",
            "no fabric_second address, or networks.fabric.second_family",
        ),
        (
            lambda w: w["nodes"][0].update(management_second="10.1.0.1"),
            ("nodes", 0, "management_second"),
            "10.1.0.1",
            "addresses in the management network 10.0.0.0/16",
        ),
        (
            lambda w: w["nodes"][0].update(management_second="10.0.1.1"),
            ("nodes", 1, "management_second"),
            "10.0.1.1",
            "unique addresses; already used by head1",
        ),
        (
            lambda w: w["networks"]["management"]["second_family"].update(gateway="10.0.0.1"),
            ("networks", "management", "second_family", "gateway"),
            "10.0.0.1",
            "the address of a router; head1 has this one",
        ),
        (
            lambda w: w["networks"]["fabric"]["second_family"].update(prefix="10.0.0.0/12"),
            ("networks", "fabric", "second_family", "prefix"),
            "10.0.0.0/12",
            "a network outside of the management network, 10.0.0.0/16",
        ),
        (
            lambda w: w["networks"]["fabric"]["second_family"].update(rail_length=33),
            ("networks", "fabric", "second_family", "rail_length"),
            "33",
            "at most 31 with 10.8.0.0/13",
        ),
        (
            lambda w: w["networks"]["fabric"]["second_family"].update(prefix="10.8.0.0/15"),
            ("networks", "fabric", "second_family", "prefix"),
            "10.8.0.0/15",
            "a prefix with room for 8 rails of the length /16 (rail_length)",
        ),
    ],
)
def test_a_wrong_second_family_is_refused_at_its_place(
    change: Any, where: tuple[str | int, ...], value: str, allowed: str
) -> None:
    wanted = dual()
    change(wanted)
    _, problems = load(wanted, declared())
    found = [(one.path, one.value, one.allowed) for one in problems]
    assert (where, value, allowed) in found


def test_name_servers_have_a_family_of_the_network() -> None:
    wanted = dual()
    wanted["networks"]["management"]["name_servers"] = ["10.0.255.53", "fd00:1::53"]
    assert load(wanted, declared())[1] == []
    del wanted["networks"]["management"]["second_family"]
    for group in wanted["nodes"]:
        del group["management_second"]
    (problem,) = load(wanted, declared())[1]
    assert (problem.value, problem.allowed) == (
        "10.0.255.53",
        "IPv6 addresses: the nodes have no other in this network",
    )


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        (
            lambda w: w["networks"]["fabric"].update(manager="networkmanager"),
            ("networks", "fabric", "manager"),
            "networkmanager",
        ),
        (
            lambda w: w["networks"]["fabric"].update(manager="unmanaged", gateway="fd00:2::ffff"),
            ("networks", "fabric", "gateway"),
            "fd00:2::ffff",
        ),
        (
            lambda w: w["networks"]["fabric"].update(gateway="fd00:2:0:1::ffff"),
            ("networks", "fabric", "gateway"),
            "fd00:2:0:1::ffff",
        ),
        (
            lambda w: w["networks"]["management"].update(manager="release", gateway="fd00:9::1"),
            ("networks", "management", "gateway"),
            "fd00:9::1",
        ),
        (
            lambda w: w["networks"]["management"].update(manager="release", gateway="fd00:1::"),
            ("networks", "management", "gateway"),
            "fd00:1::",
        ),
        (
            lambda w: w["networks"]["fabric"].update(gateway="fd00:2::103"),
            ("networks", "fabric", "gateway"),
            "fd00:2::103",
        ),
        (
            lambda w: w["networks"]["fabric"].update(name_servers=["fd00:1::53"]),
            ("networks", "fabric", "name_servers"),
            "fd00:1::53",
        ),
        (
            lambda w: w["hardware"]["hgx"].update(nics={"count": 8}),
            ("hardware", "hgx", "nics", "interfaces"),
            "no names",
        ),
        (
            lambda w: w["hardware"]["hgx"].update(
                nics={"count": 8, "interfaces": "a-very-long-name[0-7]"}
            ),
            ("hardware", "hgx", "nics", "interfaces"),
            "a-very-long-name0",
        ),
        (
            lambda w: (
                w["networks"]["management"].update(manager="release")
                or w["hardware"]["head"].update(management_interface="")
            ),
            ("hardware", "head", "management_interface"),
            "no name",
        ),
        (
            lambda w: (
                w["networks"]["management"].update(manager="release")
                or w["hardware"]["hgx"].update(management_interface="fabric0")
            ),
            ("hardware", "hgx", "management_interface"),
            "fabric0",
        ),
        (
            lambda w: (
                w["networks"]["fabric"].update(mtu=9000)
                or w["hardware"]["hgx"]["nics"].update(rdma="infiniband")
            ),
            ("hardware", "hgx", "nics", "ipoib_mode"),
            "datagram with networks.fabric.mtu 9000",
        ),
    ],
)
def test_a_description_that_cannot_be_configured_is_refused(
    change: Any, path: tuple[str, ...], value: str
) -> None:
    wanted = networked({"manager": "networkd"})
    change(wanted)
    _, problems = load(wanted, declared())
    assert [(one.path, one.value) for one in problems] == [(path, value)]
