"""The readers of network configuration: what an interface gets at the next boot, and from where."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lockstep.node.readers import netplan_files, network_files, networkd_files, tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.network_files import read_persisted
from lockstep.node.readers.reading import Unread
from lockstep.plan.network import UNITS

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

    def read(self, what: str, *others: str, commands: Commands | None = None) -> Any:
        request = {"interfaces": [what, *others]}
        return read_persisted(request, commands or Programs())["net.persisted"][what]


class Programs(Commands):
    """Runs netplan; the answers of other programs are made up."""

    def __init__(self, *enabled: str, altnames: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.enabled = enabled
        self.altnames = altnames

    @override
    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        if argv[0] == "netplan":
            return super().outcome(*argv, text=text, user=user)
        self.ran.append({"argv": list(argv)})
        if argv[0] == "ip":
            rows = [{"ifname": name, "altnames": self.altnames} for name in ("eno1", "fabric0")]
            return 0, json.dumps(rows), ""
        assert argv[:2] == ("systemctl", "show")
        blocks = (
            f"LoadState=loaded\nActiveState=inactive\n"
            f"UnitFileState={'enabled' if unit in self.enabled else 'disabled'}\n"
            for unit in argv[argv.index("--") + 1 :]
        )
        return 0, "\n".join(blocks), ""


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
        "routers": [],
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
        "/usr/lib/systemd/network/80-container-ve.network", "[Match]\nName=ve-*\nDriver=veth\n"
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


def test_files_of_another_program_are_named_if_it_acts(machine: Machine) -> None:
    machine.file("/etc/network/interfaces", "auto eno1\niface eno1 inet dhcp\n")
    nothing: dict[str, Any] = {
        "addresses": [],
        "mtu": None,
        "routers": [],
        "files": [],
        "elsewhere": [],
    }
    assert machine.read("networkd eno1") == nothing
    machine.file("/usr/sbin/ifup", "")
    assert machine.read("networkd eno1") == {**nothing, "elsewhere": ["/etc/network/interfaces"]}


@pytest.mark.parametrize("others", [(), ("networkd fabric0",)])
@pytest.mark.parametrize("enabled", [(), ("systemd-networkd.service",)])
def test_networkd_acts_if_its_unit_is_enabled_or_it_has_a_rail(
    enabled: tuple[str, ...], others: tuple[str, ...], machine: Machine
) -> None:
    path = "/etc/systemd/network/20-all.network"
    machine.file(path, "[Match]\nName=*\n[Network]\nDHCP=yes\n")
    seen = machine.read("ifupdown eno1", *others, commands=Programs(*enabled))
    assert seen["elsewhere"] == ([path] if enabled or others else [])


@pytest.mark.parametrize(
    ("own", "path", "text", "unit", "why"),
    [
        (
            "ifupdown",
            f"{PROFILES}/a.nmconnection",
            "nonsense",
            "NetworkManager.service",
            "File contains no section headers",
        ),
        (
            "ifupdown",
            "/etc/systemd/network/20-all.network",
            "[Match]\nNew=1\n",
            "systemd-networkd.service",
            "20-all.network may apply to eno1: [Match] New=: Lockstep does not know this key",
        ),
    ],
)
def test_what_cannot_be_read_counts_only_if_its_program_acts(
    own: str, path: str, text: str, unit: str, why: str, machine: Machine
) -> None:
    machine.file(path, text)
    what = f"{own} eno1"
    assert machine.read(what, commands=Programs())["elsewhere"] == []
    assert why in machine.read(what, commands=Programs(unit))["unread"]


def test_a_leftover_of_ifupdown_does_not_hide_what_netplan_does(machine: Machine) -> None:
    folder = machine.root / "etc/network/interfaces"
    folder.mkdir(parents=True)  # it cannot be read as a file
    machine.file("/etc/systemd/network/10-a.network", "[Match]\nName=eno1\n")
    assert machine.read("networkd eno1")["files"] == ["/etc/systemd/network/10-a.network"]
    machine.file("/usr/sbin/ifup", "")
    assert "/etc/network/interfaces: Is a directory" in machine.read("networkd eno1")["unread"]


def test_an_alternative_name_counts(machine: Machine) -> None:
    path = "/etc/systemd/network/20-a.network"
    machine.file(path, "[Match]\nName=enp1*\n")
    assert machine.read("networkd eno1")["files"] == []
    named = Programs(altnames=("enp1s0",))
    assert machine.read("networkd eno1", commands=named)["files"] == [path]


@pytest.mark.parametrize(
    ("lines", "applies"),
    [
        ("", True),
        ("[match]\ninterface-name=en*;\n", True),
        ("[match]\ninterface-name=!eno1;\n", False),
        ("[ethernet]\nmac-address=A0:88:C2:00:00:01\n", True),
        ("[ethernet]\nmac-address=A0:88:C2:00:00:02\n", False),
        ("[match]\nkernel-command-line=x\n", None),
    ],
)
def test_network_manager_has_profiles_without_a_name_of_an_interface(
    lines: str, applies: bool | None, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networkd_files.Link, "permanent_address", lambda self: "")
    machine.file("/sys/class/net/eno1/type", "1\n")
    machine.file("/sys/class/net/eno1/address", "a0:88:c2:00:00:01\n")
    path = f"{PROFILES}/any.nmconnection"
    machine.file(path, f"[connection]\ntype=ethernet\n{lines}[ipv4]\nmethod=auto\n")
    seen = machine.read("networkmanager eno1")
    if applies is None:
        assert "[match] kernel-command-line=x of a profile" in seen["unread"]
    else:
        assert (seen["files"], seen["addresses"]) == (([path], ["DHCP"]) if applies else ([], []))


@pytest.mark.parametrize(
    ("keys", "routers"),
    [
        ("address1=fd00::5/64,fd00::1", ["fd00::1"]),
        ("address1=fd00::5/64,fd00::1\nnever-default=true", []),
        ("address1=fd00::5/64\ngateway=fd00::2", ["fd00::2"]),
        ("address1=fd00::5/64\nroute1=::/0,fd00::3,5", ["fd00::3"]),
        ("address1=fd00::5/64\nroute1=::/0,fd00::3\nroute1_options=table=1000", []),
        ("address1=fd00::5/64\nroute1=fd01::/64,fd00::3", []),
    ],
)
def test_the_routers_of_a_profile(keys: str, routers: list[str], machine: Machine) -> None:
    text = f"[connection]\ntype=ethernet\ninterface-name=eno1\n[ipv6]\nmethod=manual\n{keys}\n"
    machine.file(f"{PROFILES}/a.nmconnection", text)
    assert machine.read("networkmanager eno1")["routers"] == routers


needs_netplan = pytest.mark.skipif(
    shutil.which("netplan") is None, reason="needs netplan (package netplan.io)"
)


@needs_netplan
def test_netplan_runs_once_for_all_interfaces(machine: Machine) -> None:
    head = "network:\n  version: 2\n  ethernets:\n"
    rails = [f"fabric{number}" for number in range(8)]
    own = "".join(f'    {name}:\n      addresses: ["{RAIL}"]\n' for name in rails)
    machine.file("/etc/netplan/90-lockstep-rails.yaml", head + own)
    commands = Programs()
    request = {"interfaces": [f"netplan {name}" for name in rails]}
    seen = read_persisted(request, commands)["net.persisted"]
    assert [one["addresses"] for one in seen.values()] == [[RAIL]] * 8
    assert [one["argv"][0] for one in commands.ran].count("netplan") == 1
    machine.file("/etc/netplan/60-x.yaml", f"{head}    fabric0:\n      no-such-key: 1\n")
    commands = Programs()
    seen = read_persisted(request, commands)["net.persisted"]
    assert all("no-such-key" in one["unread"] for one in seen.values())
    assert [one["argv"][0] for one in commands.ran].count("netplan") == 1


FOREIGN = "/etc/netplan/50-site.yaml"
DEFINITIONS = {
    # Another definition, and whether it decides what fabric0 gets: the first in order does.
    "all: {match: {name: 'fab*'}, dhcp4: true}": True,
    "zz: {match: {name: 'fab*'}, dhcp4: true}": False,
    "all: {match: {macaddress: 'a0:88:c2:00:00:01'}, addresses: ['10.0.0.5/24']}": True,
    "all: {match: {macaddress: 'a0:88:c2:00:00:02'}, dhcp4: true}": None,
    "all: {match: {driver: 'mlx5*'}, mtu: 9000}": True,
    "all: {match: {driver: ['bond', 'mlx5_core'], name: 'f*'}, dhcp6: true}": True,
    "all: {match: {driver: 'e1000e', name: 'fab*'}, dhcp6: true}": None,
    "all: {match: {macaddress: 'a0:88:c2:00:00:01'}, set-name: fabric0, dhcp4: true}": True,
    "all: {match: {macaddress: 'a0:88:c2:00:00:01'}, set-name: eno9, dhcp4: true}": None,
    "all: {match: {name: 'eno*'}, dhcp4: true}": None,
    "all: {match: {name: 'fab*'}, routes: [{to: default, via: '10.0.0.1'}]}": True,
    "all: {match: {name: 'fab*'}, addresses: [{'10.0.0.5/24': {label: 'a:b', lifetime: 0}}]}": True,
    "all: {match: {name: 'fab*'}, renderer: NetworkManager, dhcp4: true}": False,
    "'a.b': {match: {name: 'fab*'}, gateway6: 'fd00::1', accept-ra: true}": True,
}


@needs_netplan
@pytest.mark.parametrize("text", DEFINITIONS)
def test_a_definition_that_matches_is_seen_and_its_file_is_named(
    text: str, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the reader makes of netplan's files is what networkd gets of the generated ones."""
    monkeypatch.setattr(networkd_files.Link, "permanent_address", lambda self: "a088c2000001")
    monkeypatch.setattr(networkd_files.Link, "driver", lambda self: "mlx5_core")
    head = "network:\n  version: 2\n  ethernets:\n"
    own = "/etc/netplan/90-lockstep-rails.yaml"
    mine = f'    "fabric0":\n      renderer: networkd\n      addresses: ["{RAIL}"]\n'
    machine.file(own, head + mine)
    machine.file(FOREIGN, f"{head}    {text}\n")
    seen = machine.read("netplan fabric0")
    decides = DEFINITIONS[text]
    assert (
        seen["files"]
        == {
            True: [FOREIGN, own],
            False: [own, FOREIGN],
            None: [own],
        }[decides]
    )
    assert (seen["addresses"] != [RAIL]) is (decides is True)
    generate = ["netplan", "generate", "--root-dir", str(tmp_path)]
    subprocess.run(generate, check=True, capture_output=True)
    generated = machine.read("networkd fabric0")
    same = ("addresses", "mtu", "routers")
    assert [generated[key] for key in same] == [seen[key] for key in same]


@needs_netplan
def test_a_network_file_before_netplans_decides(machine: Machine) -> None:
    text = f'network:\n  ethernets:\n    fabric0:\n      addresses: ["{RAIL}"]\n'
    machine.file("/etc/netplan/90-lockstep.yaml", text)
    path = "/etc/systemd/network/05-x.network"
    machine.file(path, "[Match]\nName=fab*\n[Network]\nDHCP=yes\n")
    seen = machine.read("netplan fabric0")
    assert (seen["addresses"], seen["files"]) == (["DHCP"], [path, "/etc/netplan/90-lockstep.yaml"])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("{}\n", {}),
        ("a:\n  b: c\n  d:\n  - e\n  - 'f''g'\n", {"a": {"b": "c", "d": ["e", "f'g"]}}),
        (
            'a:\n- "k: v":\n    x: "\\t1"\n- b: 1\n  c:\n    d: 2\ne: []\n',
            {"a": [{"k: v": {"x": "\t1"}}, {"b": "1", "c": {"d": "2"}}], "e": []},
        ),
        ("a: one\n  two\nb: 'x\n  y'\n", {"a": "one two", "b": "x y"}),
        ("a:\nb: fd00::1\n", {"a": None, "b": "fd00::1"}),
    ],
)
def test_the_yaml_that_netplan_prints_is_read(text: str, value: Any) -> None:
    assert netplan_files.parsed(text) == value


@pytest.mark.parametrize("text", ["- a\n", "a: b\nc\n", "a:\n  - b\n  c: d\n"])
def test_other_yaml_is_unread(text: str) -> None:
    with pytest.raises(Unread, match="a line that Lockstep does not understand"):
        netplan_files.parsed(text)


@needs_netplan
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
    assert network_files.READERS.keys() == UNITS.keys()
