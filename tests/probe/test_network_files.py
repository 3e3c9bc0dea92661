"""The readers of network configuration: what an interface gets at the next boot, and from where."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lockstep.node.readers import network_files, tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.network_files import read_persisted

RAIL = "fd00:2::5/64"


class Machine:
    """A folder that stands for /."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def file(self, path: str, text: str) -> None:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(0o600)  # netplan warns of others

    def read(self, what: str) -> Any:
        request = {"interfaces": [what]}
        return read_persisted(request, Commands())["net.persisted"][what]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    return Machine(tmp_path)


INTERFACES = "source /etc/network/interfaces.d/*\nauto lo\niface lo inet loopback\n"
OWN = f"""# Managed
auto fabric0
iface fabric0 inet6 static
    address {RAIL}
    pre-up ip link set dev $IFACE mtu 4200
"""


def test_ifupdown_reads_sourced_files(machine: Machine) -> None:
    machine.file("/etc/network/interfaces", INTERFACES)
    machine.file("/etc/network/interfaces.d/50-lockstep", OWN)
    assert machine.read("ifupdown fabric0") == {
        "addresses": [RAIL],
        "mtu": 4200,
        "files": ["/etc/network/interfaces.d/50-lockstep"],
        "elsewhere": [],
    }


def test_ifupdown_gives_nothing_that_is_not_sourced_or_does_not_start(machine: Machine) -> None:
    machine.file("/etc/network/interfaces.d/50-lockstep", OWN)
    machine.file("/etc/network/interfaces", "auto lo\n")
    assert machine.read("ifupdown fabric0")["addresses"] == []
    machine.file("/etc/network/interfaces", INTERFACES)
    machine.file("/etc/network/interfaces.d/50-lockstep", OWN.replace("auto fabric0\n", ""))
    assert machine.read("ifupdown fabric0")["addresses"] == []


def test_ifupdown_adds_up_all_stanzas(machine: Machine) -> None:
    further = (
        "allow-hotplug fabric0\niface fabric0 inet dhcp\n"
        "iface fabric0 inet static\n address 10.0.0.5\n netmask 255.255.240.0\n"
    )
    machine.file("/etc/network/interfaces", INTERFACES + further)
    machine.file("/etc/network/interfaces.d/50-lockstep", OWN)
    seen = machine.read("ifupdown fabric0")
    assert seen["addresses"] == ["10.0.0.5/20", "DHCP", RAIL]
    assert seen["files"] == ["/etc/network/interfaces.d/50-lockstep", "/etc/network/interfaces"]


def test_networkd_takes_the_first_file_that_matches(machine: Machine) -> None:
    own = f"[Match]\nName=fabric0\n[Network]\nAddress={RAIL}\n[Link]\nMTUBytes=4200\n"
    machine.file("/etc/systemd/network/10-lockstep-fabric0.network", own)
    machine.file("/etc/systemd/network/20-all.network", "[Match]\nName=*\n[Network]\nDHCP=yes\n")
    seen = machine.read("networkd fabric0")
    assert (seen["addresses"], seen["mtu"]) == ([RAIL], 4200)
    assert machine.read("networkd eno1")["addresses"] == ["DHCP"]
    machine.file(
        "/run/systemd/network/05-x.network", "[Match]\nName=!lo\n[Address]\nAddress=fd00::9/64\n"
    )
    seen = machine.read("networkd fabric0")
    assert seen["addresses"] == ["fd00::9/64"]
    assert seen["files"] == ["/run/systemd/network/05-x.network"]


def test_networkd_reads_drop_ins_and_masks(machine: Machine) -> None:
    machine.file("/usr/lib/systemd/network/05-x.network", "[Match]\nName=fab*\n")
    machine.file("/etc/systemd/network/05-x.network", "")
    machine.file(
        "/etc/systemd/network/10-a.network", f"[Match]\nName=fabric0\n[Network]\nAddress={RAIL}\n"
    )
    drop_in = "/etc/systemd/network/10-a.network.d/x.conf"
    machine.file(drop_in, "[Network]\nAddress=fd00::9/64\n")
    seen = machine.read("networkd fabric0")
    assert seen["addresses"] == sorted([RAIL, "fd00::9/64"])
    assert seen["files"] == ["/etc/systemd/network/10-a.network", drop_in]


def test_networkd_matches_by_type_and_never_a_file_for_virtual_links(machine: Machine) -> None:
    machine.file("/sys/class/net/ib0/type", "32\n")
    machine.file(
        "/usr/lib/systemd/network/80-container-ve.network", "[Match]\nName=ib*\nDriver=veth\n"
    )
    machine.file(
        "/etc/systemd/network/90-ib.network", "[Match]\nType=infiniband\n[Network]\nDHCP=ipv4\n"
    )
    assert machine.read("networkd ib0")["addresses"] == ["DHCP"]


PROFILES = "/etc/NetworkManager/system-connections"
PROFILE = f"""[connection]
id=lockstep-ib0
type=infiniband
interface-name=ib0
autoconnect-priority=100
[infiniband]
mtu=2044
[ipv6]
method=manual
address1={RAIL},fd00:2::1
"""


def test_network_manager_takes_the_profile_with_the_highest_priority(machine: Machine) -> None:
    machine.file(f"{PROFILES}/lockstep-ib0.nmconnection", PROFILE)
    other = PROFILE.replace("=100", "=5").replace("method=manual", "method=auto")
    machine.file(f"{PROFILES}/a.nmconnection", other)
    seen = machine.read("networkmanager ib0")
    assert (seen["addresses"], seen["mtu"]) == ([RAIL], 2044)
    assert [path.rpartition("/")[2] for path in seen["files"]] == [
        "lockstep-ib0.nmconnection",
        "a.nmconnection",
    ]
    machine.file(f"{PROFILES}/a.nmconnection", other.replace("=5", "=500"))
    assert machine.read("networkmanager ib0")["addresses"] == sorted([RAIL, "SLAAC"])
    machine.file(f"{PROFILES}/a.nmconnection", "nonsense")
    assert machine.read("networkmanager ib0") == {
        "unread": f"{PROFILES}/a.nmconnection: File contains no section headers."
    }


def test_files_of_another_program_are_named(machine: Machine) -> None:
    machine.file("/etc/network/interfaces", "auto eno1\niface eno1 inet dhcp\n")
    assert machine.read("networkd eno1") == {
        "addresses": [],
        "mtu": None,
        "files": [],
        "elsewhere": ["/etc/network/interfaces"],
    }


@pytest.mark.skipif(shutil.which("netplan") is None, reason="needs netplan (package netplan.io)")
def test_netplan_merges_its_files(machine: Machine) -> None:
    head = "network:\n  version: 2\n  ethernets:\n    fabric0:\n"
    machine.file(
        "/etc/netplan/90-lockstep.yaml", f'{head}      addresses: ["{RAIL}"]\n      mtu: 4200\n'
    )
    seen = machine.read("netplan fabric0")
    assert (seen["addresses"], seen["mtu"]) == ([RAIL], 4200)
    machine.file("/etc/netplan/50-cloud-init.yaml", f"{head}      dhcp4: true\n")
    seen = machine.read("netplan fabric0")
    assert seen["addresses"] == sorted(["DHCP", RAIL])
    assert seen["files"] == ["/etc/netplan/50-cloud-init.yaml", "/etc/netplan/90-lockstep.yaml"]
    assert machine.read("netplan eno1")["files"] == []
    machine.file("/etc/netplan/60-x.yaml", f"{head}      no-such-key: 1\n")
    assert "no-such-key" in machine.read("netplan fabric0")["unread"]


def test_every_program_of_the_catalogue_has_a_reader() -> None:
    assert {*network_files.READERS, "netplan"} == {
        *("ifupdown", "networkd", "netplan", "networkmanager")
    }
