"""The role network: files that their programs accept, and rails that the programs configure.

The programs run in a network namespace of their own, with links that end there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.facts.network import InterfaceState, InterfaceStates
from lockstep.plan.network import Interface
from lockstep.render import render
from lockstep.roles.network import (
    IFUPDOWN_READS,
    NETPLAN_READS,
    NETWORK_MANAGER_READS,
)
from lockstep.roles.operations.network import applied, due_rails, has_address, unsafe

RAIL = Interface(
    name="rail0",
    purpose="rail0",
    manager="networkd",
    address="fd00:2::5",
    prefix="fd00:2::/64",
    mtu=4200,
    gateway="fd00:2::1",
    table=1000,
)
OLD = replace(RAIL, address="10.1.0.5", prefix="10.1.0.0/16", gateway="", table=None)
IB = replace(RAIL, name="ib0", ipoib_mode="datagram", mtu=2044)
MANAGEMENT = replace(
    RAIL, name="eno1", purpose="management", table=None, name_servers=("fd00:2::53", "fd00:2::54")
)
EVERY = {"rail": RAIL, "ipv4": OLD, "ib": IB, "management": MANAGEMENT}
NETWORKD = "/lib/systemd/systemd-networkd"


def needs(program: str, package: str) -> pytest.MarkDecorator:
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return pytest.mark.skipif(found is None, reason=f"needs {program} (package {package})")


needs_ifupdown = needs("ifup", "ifupdown")
needs_networkd = needs(NETWORKD, "systemd")
in_namespace = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")


def rendered(template: str, *interfaces: Interface) -> str:
    release = SimpleNamespace(boots_without_required_link=version_of_networkd() >= 255)
    plan = SimpleNamespace(interfaces=interfaces, release=release)
    return render(f"network/{template}.j2", plan=plan, interface=interfaces[0].name)


@cache
def version_of_networkd() -> int:
    """Return the version of systemd; 0 if networkd is not installed."""
    if not Path(NETWORKD).exists():
        return 0
    done = subprocess.run([NETWORKD, "--version"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[1].partition(".")[0])


def judged(command: str, new: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-ec", command.format(new=new)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )


# -- each file is accepted by the program that reads it, and a wrong one is not


@needs_ifupdown
@pytest.mark.parametrize("one", EVERY.values(), ids=EVERY)
def test_ifupdown_reads_its_file(one: Interface, tmp_path: Path) -> None:
    new = tmp_path / "interfaces"
    new.write_text(rendered("interfaces", replace(one, manager="ifupdown")))
    assert judged(IFUPDOWN_READS, new).returncode == 0
    new.write_text(new.read_text().replace("static", "statc"))
    done = judged(IFUPDOWN_READS, new)
    assert (done.returncode, "unknown or no method" in done.stderr) == (1, True)


@needs("netplan", "netplan.io")
@pytest.mark.parametrize("one", EVERY.values(), ids=EVERY)
def test_netplan_reads_its_file(one: Interface, tmp_path: Path) -> None:
    command = NETPLAN_READS.replace('/etc/netplan "$d/etc/"', f'{tmp_path}/netplan "$d/etc/"')
    (tmp_path / "netplan").mkdir()
    new = tmp_path / "netplan" / "90-lockstep.yaml.lockstep-new"
    new.touch(0o600)
    new.write_text(rendered("netplan.yaml", replace(one, manager="netplan")))
    done = judged(command, new)
    assert (done.returncode, done.stderr) == (0, "")
    new.write_text(new.read_text().replace("accept-ra", "accept-rax"))
    done = judged(command, new)
    assert (done.returncode, "unknown key 'accept-rax'" in done.stderr) == (1, True)


@needs("nmcli", "network-manager")
@pytest.mark.parametrize("one", EVERY.values(), ids=EVERY)
def test_network_manager_reads_its_profile_as_it_was_meant(one: Interface, tmp_path: Path) -> None:
    new = tmp_path / "profile"
    new.write_text(rendered("profile.nmconnection", one))
    assert judged(NETWORK_MANAGER_READS, new).returncode == 0
    # What NetworkManager does not know, it leaves out of what it writes.
    again = judged(NETWORK_MANAGER_READS.replace(">/dev/null", ""), new).stdout.splitlines()
    lines = [line for line in new.read_text().splitlines() if "=" in line]
    assert [line for line in lines if line not in again] == []
    new.write_text(new.read_text().replace("address1=", "address1=x"))
    assert judged(NETWORK_MANAGER_READS, new).returncode == 1


@needs("NetworkManager", "network-manager")
def test_network_manager_reads_its_configuration(tmp_path: Path) -> None:
    new = tmp_path / "50-lockstep.conf"
    new.write_text(rendered("networkmanager.conf", RAIL, IB, MANAGEMENT))
    command = "NetworkManager --config={new} --print-config 2>&1"
    shown = judged(command, new).stdout
    assert "match-device=interface-name:rail0;interface-name:ib0;\n" in shown
    assert "ignore-carrier=yes" in shown


# -- the programs configure the rail

SCRIPT = """
mount -t tmpfs none /run; mkdir -p /run/systemd /run/network
mount -t sysfs -o ro none /sys
ip link set lo up; ip link add rail0 type veth peer name peer0; ip link set peer0 {carrier}
{run}
echo shown:; ip -oneline address show dev rail0 scope global; ip link show rail0
ip -6 rule; ip -6 route show table 1000 2>/dev/null; ip -6 route show default
"""


def in_own_namespace(run: str, carrier: str = "up") -> subprocess.CompletedProcess[str]:
    script = SCRIPT.format(run=run, carrier=carrier)
    words = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "bash", "-ec"]
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    return subprocess.run(
        [*words, script],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": path, "SYSTEMD_LOG_LEVEL": "info"},
    )


def is_complete(shown: str) -> None:
    assert "fd00:2::5/64" in shown
    assert "mtu 4200" in shown
    assert "1000:\tfrom fd00:2::5 lookup 1000" in shown
    assert "fd00:2::/64 dev rail0" in shown
    assert "default via fd00:2::1 dev rail0" in shown
    # In the table of the rail, and nowhere else.
    assert shown.count("default via") == 1


@needs_networkd
@in_namespace
@pytest.mark.parametrize("carrier", ["up", "down"])
def test_networkd_configures_a_rail_and_knows_every_key(carrier: str, tmp_path: Path) -> None:
    folder = tmp_path / "network"
    folder.mkdir()
    (folder / "10-lockstep-rail0.network").write_text(rendered("networkd.network", RAIL))
    os.chmod(tmp_path, 0o755)
    wait = "/lib/systemd/systemd-networkd-wait-online --timeout=3 2>&1"
    run = (
        f"mount --bind {folder} /etc/systemd/network\n{NETWORKD} 2>/run/log & p=$!\n"
        f"{has_address(RAIL)}; {wait} || echo not online; kill $p; cat /run/log"
    )
    done = in_own_namespace(run, carrier)
    assert done.returncode == 0, done.stderr
    log, _, shown = done.stdout.partition("shown:")
    assert "Configuring with /etc/systemd/network/10-lockstep-rail0.network" in log, log
    assert "nknown" not in log
    assert "fd00:2::5/64" in shown
    assert "mtu 4200" in shown
    # A rail without a cable does not delay the boot; before 255, wait-online cannot be told so.
    assert "not online" not in log or (carrier, version_of_networkd() < 255) == ("down", True)
    if carrier == "up":
        is_complete(shown)


@needs_ifupdown
@in_namespace
def test_ifupdown_configures_a_rail_again_and_again(tmp_path: Path) -> None:
    rail = replace(RAIL, manager="ifupdown")
    file = tmp_path / "interfaces"
    file.write_text(rendered("interfaces", rail))
    (command,) = applied([rail])
    has = has_address(rail)
    run = (
        f"mount --bind {file} /etc/network/interfaces\nip address add fd00:2::5/64 dev rail0\n"
        # The address is there, ifup has done it once, and then it is lost.
        f"{command}; {has}; {command}; ip address flush dev rail0 scope global; {command}; {has}"
    )
    done = in_own_namespace(run)
    assert done.returncode == 0, done.stderr
    is_complete(done.stdout.partition("shown:")[2])
    assert done.stdout.count("lookup 1000") == 1


@in_namespace
def test_an_address_that_does_not_come_is_an_error_with_the_next_step() -> None:
    rail = replace(RAIL, address="fd00:2::6")
    done = in_own_namespace(has_address(rail).replace("-le 50", "-le 1"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "rail0 did not get fd00:2::6 within 10 s. Next: look at the log of systemd-networkd.service"
    )


# -- what is due, and what would be unsafe


def state(**changes: object) -> InterfaceState:
    right = InterfaceState(
        exists=True, addresses=("fd00:2::5",), mtu=4200, has_default_route=False, files=()
    )
    return replace(right, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "stale", "is_due"),
    [
        (state(), False, False),
        (state(), True, True),
        (state(addresses=()), False, True),
        (state(addresses=("fd00:2::5", "fd00:2::9")), False, False),
        (state(mtu=1500), False, True),
        (state(exists=False, addresses=(), mtu=None), True, False),
    ],
)
def test_a_rail_is_configured_again_only_if_something_is_missing(
    seen: InterfaceState, stale: bool, is_due: bool
) -> None:
    units = frozenset({"systemd-networkd.service"} if stale else ())
    states = InterfaceStates({"rail0": seen, "eno1": state(addresses=(), mtu=1)}, job_steps=0)
    assert due_rails((MANAGEMENT, RAIL), states, units) == ((RAIL,) if is_due else ())


@pytest.mark.parametrize(
    ("one", "seen", "why"),
    [
        (MANAGEMENT, state(), ""),
        (MANAGEMENT, state(has_default_route=True), ""),
        (MANAGEMENT, state(addresses=("fd00:2::6",)), "does not have the management address"),
        (replace(MANAGEMENT, gateway=""), state(has_default_route=True), "has no router"),
        (
            MANAGEMENT,
            state(
                files=("/etc/network/interfaces", "/etc/systemd/network/10-lockstep-eno1.network")
            ),
            "/etc/network/interfaces configures eno1, too",
        ),
    ],
)
def test_the_management_interface_gets_a_file_only_if_the_next_boot_keeps_it_reachable(
    one: Interface, seen: InterfaceState, why: str
) -> None:
    found = unsafe(one, seen)
    assert why in found
    assert bool(found) == bool(why)
    assert not found or "Next: " in found
