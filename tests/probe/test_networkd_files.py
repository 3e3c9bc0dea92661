"""The reader of .network files, beside networkd: both must choose the same file.

networkd runs in a network namespace of its own, with a link for each case.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lockstep.node.readers import networkd_files, tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.networkd_files import TESTS, applies
from lockstep.node.readers.reading import Unread

NETWORKD = "/lib/systemd/systemd-networkd"


def version_of_networkd() -> int:
    """Return the release of systemd; 0 if networkd is not installed."""
    if not Path(NETWORKD).exists():
        return 0
    done = subprocess.run([NETWORKD, "--version"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[1].partition(".")[0])


needs_networkd = pytest.mark.skipif(
    not Path(NETWORKD).exists() or os.geteuid() != 0,
    reason="needs networkd (package systemd), and root for a network namespace",
)
BEFORE = ["10.9.0.1/24"] if version_of_networkd() < 256 else []
"""An address before an empty ``Address=``."""
MAC = "02:00:00:00:00:AB"
HOST = socket.gethostname()

MATCHES = {
    # What follows "Name=link" in [Match] -> whether it fits a veth link with an alternative name.
    "": True,
    "Name=!{link}": False,
    "Name=\nName=other{link}": True,
    "Name=": False,
    "Type=ether": True,
    "Type=!ether": False,
    "Type=infiniband ether": True,
    "Type=wlan": False,
    "Driver=veth": True,
    "Driver=!veth": False,
    "Driver=mlx5* bond": False,
    "Driver=bond\nDriver=ve*": True,
    "Driver=bond\nDriver=": True,
    "Kind=veth": True,
    "Kind=!veth bond": False,
    "Kind=bond": False,
    f"MACAddress={MAC}": True,
    f"MACAddress={MAC.lower()}": True,
    f"MACAddress=02:00:00:00:00:01 {MAC.replace(':', '-')}": True,
    "MACAddress=0200.0000.00ab": True,
    "MACAddress=02:00:00:00:00:01": False,
    f"MACAddress={MAC}\nMACAddress=\nMACAddress=02:00:00:00:00:01": False,
    f"PermanentMACAddress={MAC}": False,
    "Path=pci-*": False,
    "Path=!pci-*": True,
    "Property=ID_X=1": False,
    "Property=!ID_X=1": True,
    f"Host={HOST}": True,
    f"Host={HOST[:1].upper()}*": True,
    "Host=another": False,
    "Host=!another": True,
    "Host=another\nHost=": True,
    "KernelVersion=>=4": True,
    "KernelVersion=<4": False,
    "KernelVersion=*": True,
    f"Architecture={platform.machine().replace('_', '-')}": True,
    "Architecture=s390x": False,
    "KernelCommandLine=lockstep-no-such-word": False,
    "KernelCommandLine=!lockstep-no-such-word": True,
    "Firmware=lockstep": False,
    "Virtualization=lockstep": False,
    "WLANInterfaceType=station": False,
    "WLANInterfaceType=!station": True,
    "SSID=x": False,
    "BSSID=02:00:00:00:00:01": False,
    "Type=ether\nDriver=veth\nKind=veth": True,
    "Type=ether\nDriver=bond\nKind=veth": False,
}
SETTINGS = {
    # What follows [Match] -> addresses, MTU and routers of the link.
    "[Network]\nAddress=fd00:a::1/64": (["fd00:a::1/64"], None, []),
    "[Network]\nAddress=10.9.0.1/24\nAddress=\nAddress=10.9.0.2/24": (
        [*BEFORE, "10.9.0.2/24"],
        None,
        [],
    ),
    "[Address]\nAddress=10.9.0.1/24\n[Network]\nAddress=\nAddress=10.9.0.2/24": (
        [*BEFORE, "10.9.0.2/24"],
        None,
        [],
    ),
    "[Address]\nAddress=10.9.0.1/24\n[Address]\nAddress=10.9.0.2/24\n[Network]\nDHCP=off": (
        ["10.9.0.1/24", "10.9.0.2/24"],
        None,
        [],
    ),
    "[Link]\nMTUBytes=9000\nMTUBytes=4K\n[Network]\nAddress=10.9.0.1/24\nDHCP=yes\nDHCP=FALSE": (
        ["10.9.0.1/24"],
        4096,
        [],
    ),
    "[Network]\nAddress=fd00:a::1/64\nGateway=fd00:a::9": (["fd00:a::1/64"], None, ["fd00:a::9"]),
    "[Network]\nAddress=10.9.0.1/24\n[Route]\nGateway=10.9.0.9\n[Route]\nTable=7\nGateway=::8": (
        ["10.9.0.1/24"],
        None,
        ["10.9.0.9"],
    ),
    "[Network]\nAddress=10.9.0.1/24\n[Route]\nGateway=10.9.0.9\nDestination=10.7.0.0/16": (
        ["10.9.0.1/24"],
        None,
        [],
    ),
}
SCRIPT = """
mount -t tmpfs none /run; mkdir -p /run/systemd /run/network
mount -t sysfs -o ro none /sys
ip link set lo up
{links}
mount --bind {folder} /etc/systemd/network
{networkd} 2>/run/log & p=$!
n=0; until [ "$(ip -6 -o addr show scope global to fd00:ffff::/64 | wc -l)" = {count} ]
do n=$((n+1)); [ $n -lt 100 ] || {{ cat /run/log >&2; exit 1; }}; sleep 0.1; done
sleep 1
kill $p
grep -o 'Configuring with [^ ]*' /run/log | sort >/run/chosen
grep -E 'Configuring with' /run/log
echo shown:
ip -j -d addr
echo shown:
ip -j -4 route show default; ip -j -6 route show default
echo shown:
PYTHONPATH={root} {python} -c '
import json
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.network_files import read_persisted
names = "{names}".split()
print(json.dumps(read_persisted({{"interfaces": ["networkd " + n for n in names]}}, Commands())))'
"""


def made(folder: Path) -> dict[str, str]:
    """Write two files for each case, of which the second one fits if the first does not."""
    links: dict[str, str] = {}
    for number, text in enumerate(MATCHES):
        name = f"m{number}"
        links[name] = text
        begin = f"[Match]\nName={name}\n{text.format(link=name)}\n"
        mark = f"[Network]\nAddress=fd00:ffff::{number + 1:x}/128\nIPv6AcceptRA=no\n"
        (folder / f"10-{name}.network").write_text(begin + mark)
        (folder / f"90-{name}.network").write_text(f"[Match]\nName={name}\n{mark}")
    for number, text in enumerate(SETTINGS):
        name = f"s{number}"
        links[name] = text
        mark = "[Network]\nIPv6AcceptRA=no\nLinkLocalAddressing=no\n"
        (folder / f"10-{name}.network").write_text(f"[Match]\nName={name}\n{mark}{text}\n")
    return links


def both(folder: Path) -> tuple[dict[str, str], dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the files that networkd chose, the links, their routers, and what was read."""
    links = made(folder)
    commands = [
        f"ip link add name {name} address {MAC if name[0] == 'm' else f'02:00:00:00:01:{at:02x}'} "
        f"type veth peer name p{name}; ip link property add dev {name} altname other{name}; "
        f"ip link set p{name} up"
        for at, name in enumerate(links)
    ]
    script = SCRIPT.format(
        links="\n".join(commands),
        folder=folder,
        networkd=NETWORKD,
        count=len(MATCHES),
        root=Path(__file__).parents[2],
        python=sys.executable,
        names=" ".join(links),
    )
    done = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "bash", "-ec", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    assert done.returncode == 0, done.stderr
    log, addresses, routes, read = done.stdout.split("shown:\n")
    chosen = dict(re.findall(r"(\w+): Configuring with (\S+?)\.$", log, re.MULTILINE))
    routers: dict[str, Any] = {}
    for line in routes.splitlines():
        for row in json.loads(line):
            routers.setdefault(row["dev"], []).append(row["gateway"])
    shown = {row["ifname"]: row for row in json.loads(addresses)}
    return chosen, shown, routers, json.loads(read)["net.persisted"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("network")
    for parent in (folder, *folder.parents[:3]):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    return both(folder)


@needs_networkd
@pytest.mark.parametrize("text", MATCHES, ids=lambda text: text.replace("\n", " ") or "Name")
def test_networkd_and_the_reader_choose_the_same_file(text: str, ran: Any) -> None:
    chosen, _, _, read = ran
    name = f"m{list(MATCHES).index(text)}"
    wanted = f"/etc/systemd/network/{'10' if MATCHES[text] else '90'}-{name}.network"
    assert (chosen[name], read[f"networkd {name}"].get("files")) == (wanted, [wanted])


@needs_networkd
@pytest.mark.parametrize("text", SETTINGS, ids=lambda text: text.replace("\n", " "))
def test_networkd_and_the_reader_agree_on_the_settings(text: str, ran: Any) -> None:
    _, shown, routers, read = ran
    name = f"s{list(SETTINGS).index(text)}"
    addresses, mtu, gateways = SETTINGS[text]
    link = shown[name]
    held = [f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"]]
    assert (sorted(held), link["mtu"], routers.get(name, [])) == (addresses, mtu or 1500, gateways)
    seen = read[f"networkd {name}"]
    assert (seen["addresses"], seen["mtu"], seen["routers"]) == (addresses, mtu, gateways)


# -- what a namespace does not have: udev's properties, other drivers, unknown keys


class Fixed(networkd_files.Link):
    """An interface with a driver and a permanent address, which a folder cannot have."""

    @override
    def driver(self) -> str | None:
        return "mlx5_core"

    @override
    def permanent_address(self) -> str:
        return "a088c2000001"


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> networkd_files.Link:
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    files = {
        "sys/class/net/ib0/type": "32\n",
        "sys/class/net/ib0/ifindex": "7\n",
        "sys/class/net/ib0/uevent": "INTERFACE=ib0\nIFINDEX=7\n",
        "run/udev/control": "",
        "run/udev/data/n7": "E:ID_PATH=pci-0000:17:00.0\nE:ID_VENDOR=the vendor\nI:123\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Fixed("ib0", Commands(), lambda: {"ib0": {"altnames": ["ibp23s0"]}})


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("Path=pci-0000:17:*", True),
        ("Path=pci-0000:18:*", False),
        ("Path=!pci-0000:17:*", False),
        ("Property=ID_PATH=pci-* INTERFACE=ib0", True),
        ('Property="ID_VENDOR=the vendor"', True),
        ("Property=ID_PATH=pci-* ID_X=1", False),
        ("Property=!ID_X=1", True),
        ("Driver=mlx5*", True),
        ("Driver=!mlx5*", False),
        ("Type=infiniband", True),
        ("PermanentMACAddress=A0:88:C2:00:00:01", True),
        ("Name=ibp*", True),
        ("Credential=x\nName=eno1", False),
        ("SomethingNew=1\nName=eno1", False),
    ],
)
def test_udev_and_the_driver_say_whether_a_file_fits(
    text: str, fits: bool, link: networkd_files.Link
) -> None:
    lines = [("Match x", *line.split("=", 1)) for line in text.splitlines()]
    assert applies(link, [(section, key, value) for section, key, value in lines]) is fits


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SomethingNew=1", "[Match] SomethingNew=: Lockstep does not know this key"),
        ("Credential=x", "[Match] Credential=: only systemd-networkd has its credentials"),
        ("Name=ib0\nMACAddress=a0:88:c2:00:00:01", "[Match] MACAddress=: /sys/class/net/ib0/"),
    ],
)
def test_a_file_that_may_fit_is_unread_with_the_reason(
    text: str, why: str, link: networkd_files.Link
) -> None:
    lines = [("Match x", *line.split("=", 1)) for line in text.splitlines()]
    with pytest.raises(Unread) as raised:
        applies(link, [(section, key, value) for section, key, value in lines])
    assert why in str(raised.value)


def test_an_interface_that_udev_does_not_know_yet_is_unread(
    link: networkd_files.Link, tmp_path: Path
) -> None:
    (tmp_path / "run/udev/data/n7").unlink()
    with pytest.raises(Unread, match="udev has no data of ib0"):
        applies(link, [("Match x", "Path", "pci-*")])


@pytest.mark.parametrize("release", [252, 256])
def test_an_empty_address_takes_earlier_ones_back_from_256_on(
    release: int, link: networkd_files.Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "systemd", lambda: release)
    given = ["fd00::1/64", "", "fd00::2/64"]
    lines = [("Network x", "Address", one) for one in given]
    seen = networkd_files.settings(link, lines, ["x"])["addresses"]
    assert seen == (["fd00::1/64", "fd00::2/64"] if release < 256 else ["fd00::2/64"])


@pytest.mark.parametrize(
    ("values", "is_on"),
    [
        ("off", False),
        ("No", False),
        ("none", False),
        ("IPv4", True),
        ("yes no", False),
        ("x", False),
    ],
)
def test_dhcp_is_what_networkd_takes_for_it(
    values: str, is_on: bool, link: networkd_files.Link
) -> None:
    lines = [("Network x", "DHCP", one) for one in values.split()]
    assert (networkd_files.settings(link, lines, [])["addresses"] == ["DHCP"]) is is_on


def test_every_list_has_a_test() -> None:
    """Lists are merged over several lines, conditions are not."""
    assert not TESTS.keys() & {*networkd_files.CONDITIONS, *networkd_files.UNKNOWABLE}
