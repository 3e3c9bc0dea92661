"""The role network: files that their programs accept, and rails that the programs configure.

The programs run in a network namespace of their own, with links that end there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.facts.network import InterfaceState, InterfaceStates, interface_states
from lockstep.node.readers import tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.network_files import read_persisted
from lockstep.plan.network import UNITS, Assigned, Interface, not_to_reload, path_of
from lockstep.question import Taken, Unreadable
from lockstep.render import render
from lockstep.roles.network import (
    IFUPDOWN_READS,
    NETPLAN_READS,
    NETWORK_MANAGER_READS,
)
from lockstep.roles.operations import network
from lockstep.roles.operations import operation as of_operations
from lockstep.roles.operations.network import (
    Turns,
    applied,
    due_rails,
    has_address,
    in_turn,
    unsafe,
)

ADDRESS = Assigned("fd00:2::5", "fd00:2::/64", "fd00:2::1")
LINK_LOCAL = replace(ADDRESS, gateway="fe80::1")
NO_ROUTER = replace(ADDRESS, gateway="")
IPV4_ADDRESS = Assigned("10.1.0.5", "10.1.0.0/16", "10.1.255.254")
RAIL = Interface(
    name="rail0",
    purpose="rail0",
    manager="networkd",
    assigned=(ADDRESS,),
    mtu=4200,
    table=1000,
)
OLD = replace(RAIL, assigned=(replace(IPV4_ADDRESS, gateway=""),), table=None)
IB = replace(RAIL, name="ib0", ipoib_mode="datagram", mtu=2044)
MANAGEMENT = replace(
    RAIL, name="eno1", purpose="management", table=None, name_servers=("fd00:2::53", "fd00:2::54")
)
IPV4 = replace(RAIL, assigned=(IPV4_ADDRESS,))
IPV4_MANAGEMENT = replace(
    IPV4, name="eno1", purpose="management", table=None, name_servers=("10.1.0.53",)
)
DUAL = replace(RAIL, assigned=(ADDRESS, IPV4_ADDRESS))
DUAL_MANAGEMENT = replace(
    MANAGEMENT, assigned=DUAL.assigned, name_servers=("fd00:2::53", "10.1.0.53")
)
EVERY = {
    "rail, both": DUAL,
    "rail, both, IPv4 first": replace(RAIL, assigned=(IPV4_ADDRESS, ADDRESS)),
    "rail, both, one router": replace(RAIL, assigned=(NO_ROUTER, IPV4_ADDRESS)),
    "ib, both": replace(DUAL, name="ib0", ipoib_mode="datagram", mtu=2044),
    "management, both": DUAL_MANAGEMENT,
    "management, both, one router": replace(DUAL_MANAGEMENT, assigned=(ADDRESS, OLD.assigned[0])),
    "rail": RAIL,
    "rail, IPv4": OLD,
    "rail, IPv4, router": IPV4,
    "rail, link-local router": replace(RAIL, assigned=(LINK_LOCAL,)),
    "rail, no MTU": replace(RAIL, mtu=None, assigned=(NO_ROUTER,), table=None),
    "ib": IB,
    "ib, connected": replace(IB, ipoib_mode="connected", mtu=65520),
    "ib, IPv4": replace(IPV4, name="ib0", ipoib_mode="datagram", mtu=2044),
    "management": MANAGEMENT,
    "management, IPv4": IPV4_MANAGEMENT,
    "management, link-local router": replace(MANAGEMENT, assigned=(LINK_LOCAL,)),
    "management, no router": replace(MANAGEMENT, assigned=(NO_ROUTER,), name_servers=(), mtu=None),
}
"""Everything that a description can declare."""
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
    values = {"interface": interfaces[0].name, "rails": interfaces[0].is_rail}
    return render(f"network/{template}.j2", plan=plan, **values)


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


# -- what a file says is what the reader of its program reads there, and what the plan has

TEMPLATE_OF = {
    "ifupdown": "interfaces",
    "netplan": "netplan.yaml",
    "networkd": "networkd.network",
    "networkmanager": "profile.nmconnection",
}


@pytest.mark.parametrize("manager", UNITS)
@pytest.mark.parametrize("one", EVERY.values(), ids=EVERY)
def test_the_reader_finds_what_the_plan_has(
    manager: str, one: Interface, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if manager == "netplan" and shutil.which("netplan") is None:
        pytest.skip("needs netplan (package netplan.io)")
    monkeypatch.setattr(tree, "ROOT", str(tmp_path))
    planned = replace(one, manager=manager)
    path = tmp_path / path_of(planned).lstrip("/")
    path.parent.mkdir(parents=True)
    path.touch(0o600)
    path.write_text(rendered(TEMPLATE_OF[manager], planned))
    (tmp_path / "etc/network").mkdir(exist_ok=True)
    (tmp_path / "etc/network/interfaces").write_text("source /etc/network/interfaces.d/*\n")
    what = f"{manager} {one.name}"
    seen = read_persisted({"interfaces": [what]}, Commands())["net.persisted"][what]
    assert seen == {
        "addresses": sorted(own.with_length for own in one.assigned),
        "mtu": one.mtu,
        "routers": sorted(one.routers),
        "files": [path_of(planned)],
        "elsewhere": [],
    }


# -- the programs configure the rail

SCRIPT = """
mount -t tmpfs none /run; mkdir -p /run/systemd /run/network
mount -t sysfs -o ro none /sys
ip link set lo up; ip link add rail0 type veth peer name peer0; ip link set peer0 {carrier}
{run}
echo shown:; ip -oneline address show dev rail0 scope global; ip link show rail0
for f in -4 -6; do ip $f rule; ip $f route show table 1000 2>/dev/null || true; done
echo main:; ip -4 route show default; ip -6 route show default
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


def is_complete(shown: str, one: Interface = RAIL) -> None:
    assert "mtu 4200" in shown
    of_table, _, of_main = shown.partition("main:")
    for own in one.assigned:
        assert f"{own.with_length} " in shown
        if one.table and own.gateway:
            assert f"1000:\tfrom {own.address} lookup 1000" in shown
            assert f"{own.prefix} dev rail0" in shown
        # In the table of the rail, and nowhere else.
        right, other = (of_table, of_main) if one.table else (of_main, of_table)
        assert (f"default via {own.gateway} dev rail0" in right) == bool(own.gateway)
        assert "default via" not in other


COMPLETE = {
    "rail, both": DUAL,
    "rail, both, one router": EVERY["rail, both, one router"],
    "management, both": replace(DUAL_MANAGEMENT, name="rail0"),
    "rail": RAIL,
    "rail, IPv4": IPV4,
    "rail, link-local router": replace(RAIL, assigned=(LINK_LOCAL,)),
    "management": replace(MANAGEMENT, name="rail0"),
    "management, IPv4": replace(IPV4_MANAGEMENT, name="rail0"),
    "management, link-local router": replace(MANAGEMENT, name="rail0", assigned=(LINK_LOCAL,)),
}


@needs_networkd
@in_namespace
@pytest.mark.parametrize(
    ("one", "carrier"),
    [*((one, "up") for one in COMPLETE.values()), (RAIL, "down")],
    ids=[*COMPLETE, "rail, no carrier"],
)
def test_networkd_configures_an_interface_and_knows_every_key(
    one: Interface, carrier: str, tmp_path: Path
) -> None:
    folder = tmp_path / "network"
    folder.mkdir()
    (folder / "10-lockstep-rail0.network").write_text(rendered("networkd.network", one))
    os.chmod(tmp_path, 0o755)
    wait = "/lib/systemd/systemd-networkd-wait-online --timeout=3 2>&1"
    run = (
        f"mount --bind {folder} /etc/systemd/network\n{NETWORKD} 2>/run/log & p=$!\n"
        f"{has_address(one)}; {wait} || echo not online; kill $p; cat /run/log"
    )
    done = in_own_namespace(run, carrier)
    assert done.returncode == 0, done.stderr
    log, _, shown = done.stdout.partition("shown:")
    assert "Configuring with /etc/systemd/network/10-lockstep-rail0.network" in log, log
    assert "nknown" not in log
    assert "mtu 4200" in shown
    # A rail without a cable does not delay the boot; before 255, wait-online cannot be told so.
    assert "not online" not in log or (carrier, version_of_networkd() < 255) == ("down", True)
    assert all(own.with_length in shown for own in one.assigned)
    if carrier == "up":
        is_complete(shown, one)


@needs_ifupdown
@in_namespace
@pytest.mark.parametrize("one", COMPLETE.values(), ids=COMPLETE)
def test_ifupdown_configures_an_interface_again_and_again(one: Interface, tmp_path: Path) -> None:
    rail = replace(one, manager="ifupdown")
    file = tmp_path / "interfaces"
    file.write_text(rendered("interfaces", rail))
    (command,) = applied([rail], frozenset())
    has = has_address(rail)
    run = (
        f"mount --bind {file} /etc/network/interfaces\n"
        f"ip address add {one.assigned[0].with_length} dev rail0\n"
        # The address is there, ifup has done it once, and then it is lost.
        f"{command}; {has}; {command}; ip address flush dev rail0 scope global; {command}; {has}"
    )
    done = in_own_namespace(run)
    assert done.returncode == 0, done.stderr
    is_complete(done.stdout.partition("shown:")[2], one)
    routed = [own for own in one.assigned if own.gateway and one.table]
    assert done.stdout.count("lookup 1000") == len(routed)


@in_namespace
def test_an_address_that_does_not_come_is_an_error_with_the_next_step() -> None:
    rail = replace(RAIL, assigned=(replace(ADDRESS, address="fd00:2::6"),))
    done = in_own_namespace(has_address(rail).replace("-le 50", "-le 1"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "rail0 did not get fd00:2::6 within 10 s. Next: look at the log of systemd-networkd.service"
    )


# -- what is due, and what would be unsafe


def state(**changes: object) -> InterfaceState:
    right = InterfaceState(
        exists=True,
        software="",
        addresses=("fd00:2::5",),
        mtu=4200,
        routers={},
        files=(),
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
    names = frozenset({"rail0"} if stale else ())
    states = InterfaceStates({"rail0": seen, "eno1": state(addresses=(), mtu=1)}, job_steps=0)
    assert due_rails((MANAGEMENT, RAIL), states, names) == ((RAIL,) if is_due else ())


@pytest.mark.parametrize(
    ("one", "seen", "why"),
    [
        (MANAGEMENT, state(), ""),
        (MANAGEMENT, state(routers={"ipv6": ("fd00:2::1",)}), ""),
        (
            MANAGEMENT,
            state(routers={"ipv6": ("fd00:2::9",)}),
            "default route of eno1 goes to fd00:2::9, but networks.management.gateway is fd00:2::1",
        ),
        (MANAGEMENT, state(routers={"ipv6": ()}), "default route of eno1 goes to no router"),
        (MANAGEMENT, state(addresses=("fd00:2::6",)), "does not have the management address"),
        (
            replace(MANAGEMENT, assigned=(NO_ROUTER,)),
            state(routers={"ipv6": ("fd00:2::9",)}),
            "has no router",
        ),
        (DUAL_MANAGEMENT, state(), "does not have the management address 10.1.0.5"),
        (
            DUAL_MANAGEMENT,
            state(
                addresses=("10.1.0.5", "fd00:2::5"),
                routers={"ipv6": ("fd00:2::1",), "ipv4": ("10.1.0.1",)},
            ),
            "goes to 10.1.0.1, but networks.management.second_family.gateway is 10.1.255.254",
        ),
        (
            MANAGEMENT,
            state(
                files=("/etc/network/interfaces", "/etc/systemd/network/10-lockstep-eno1.network")
            ),
            "/etc/network/interfaces configures eno1, too",
        ),
        (
            MANAGEMENT,
            state(software="bond", files=("/etc/network/interfaces",)),
            "eno1 is a bond interface, so nothing was written: Lockstep configures physical",
        ),
    ],
)
def test_the_management_interface_gets_a_file_only_if_the_next_boot_keeps_it_reachable(
    one: Interface, seen: InterfaceState, why: str
) -> None:
    found = unsafe(one, seen, runs=True)
    assert why in found
    assert bool(found) == bool(why)
    assert not found or "Next: " in found


def test_a_program_that_does_not_run_gets_no_file_of_the_management_interface() -> None:
    """Its start would configure the interface of the deploy's own connection."""
    found = unsafe(MANAGEMENT, state(), runs=False)
    assert "systemd-networkd.service does not run" in found
    assert "Next: " in found


SECOND = replace(RAIL, name="rail1", purpose="rail1")


@pytest.mark.parametrize(
    ("manager", "stale", "reloads", "runs", "busy", "now", "idle", "boot"),
    [
        # networkd: a reload reads the management interface's file, too, if that is new.
        ("networkd", "rail0", True, True, "", "rail0 rail1", "", ""),
        ("networkd", "rail0", False, True, "", "rail1", "", "rail0"),
        ("networkd", "rail0", True, False, "", "", "", "rail0 rail1"),
        # One rail in use does not stop the others, unless a reload would configure it.
        ("networkd", "rail0", True, True, "rail1", "rail0", "rail1", ""),
        ("networkd", "rail0 rail1", True, True, "rail1", "", "rail0 rail1", ""),
        ("networkd", "rail1", True, True, "rail1", "rail0", "rail1", ""),
        # netplan generates the files of all interfaces again.
        ("netplan", "rail0", True, True, "", "rail1", "", "rail0"),
        ("netplan", "", True, True, "", "rail0 rail1", "", ""),
        # ifup and nmcli configure what they are told; ifup needs no service.
        ("ifupdown", "rail0 rail1", False, False, "rail0", "rail1", "rail0", ""),
        ("networkmanager", "rail0 rail1", False, True, "rail0", "rail1", "rail0", ""),
        ("networkmanager", "rail0", False, False, "", "", "", "rail0 rail1"),
    ],
)
def test_a_rail_is_configured_only_if_no_other_interface_is(
    manager: str,
    stale: str,
    reloads: bool,
    runs: bool,
    busy: str,
    now: str,
    idle: str,
    boot: str,
) -> None:
    rails = tuple(replace(one, manager=manager) for one in (RAIL, SECOND))
    seen = {
        one.name: state(addresses=("fd00:9::9",) if one.name in busy.split() else ())
        for one in rails
    }
    states = InterfaceStates(seen, job_steps=1)
    running = frozenset({UNITS[manager]} if runs else ())
    found = in_turn(rails, states, frozenset(stale.split()), reloads, running)
    named = [tuple(one.name for one in part) for part in (found.now, found.idle, found.boot)]
    assert named == [tuple(now.split()), tuple(idle.split()), tuple(boot.split())]
    assert isinstance(found, Turns)


def test_networkd_is_not_reloaded_if_it_has_read_the_files() -> None:
    assert list(applied([RAIL], frozenset())) == ["networkctl reconfigure rail0"]
    assert list(applied([RAIL], frozenset({"rail0"}))) == [
        "networkctl reload",
        "networkctl reconfigure rail0",
    ]


@pytest.mark.parametrize("manager", UNITS)
def test_no_file_has_settings_of_the_management_interface_and_of_a_rail(manager: str) -> None:
    management, rail = (replace(one, manager=manager) for one in (MANAGEMENT, RAIL))
    assert path_of(management) != path_of(rail)
    guard = not_to_reload((management, rail))
    assert path_of(rail) not in guard
    assert (path_of(management) in guard) == (manager in ("networkd", "netplan"))


def taken(**readings: object) -> Taken:
    net = "/sys/class/net/rail0"
    right = {
        "kernel.files": {f"{net}/uevent": {f"{net}/uevent": "x=y"}, f"{net}/device/uevent": {}},
        "net.addresses": {"rail0": ["fd00:2::5"]},
        "net.mtu": {"rail0": 4200},
        "net.persisted": {"networkd rail0": {"files": [], "elsewhere": []}},
        "slurm.steps": 0,
        **{name.replace("_", ".", 1): value for name, value in readings.items()},
    }
    shown = {name: {"value": value} for name, value in right.items() if value is not None}
    return Taken(shown)


@pytest.mark.parametrize("reading", ["net_addresses", "net_mtu"])
def test_an_address_that_could_not_be_read_is_not_an_address_that_is_missing(reading: str) -> None:
    """The rail may carry a job's traffic."""
    question = interface_states((RAIL,))
    assert question.answer(taken()).by_name["rail0"].addresses == ("fd00:2::5",)
    assert question.answer(taken(net_addresses={}, net_mtu={})).by_name["rail0"].addresses == ()
    with pytest.raises(Unreadable, match=reading.replace("_", ".")):
        question.answer(taken(**{reading: None}))


@pytest.mark.parametrize(
    ("line", "device", "software"),
    [
        ("INTERFACE=rail0", True, ""),
        ("DEVTYPE=bond", False, "bond"),
        ("DEVTYPE=vlan", False, "vlan"),
        ("INTERFACE=rail0", False, "virtual"),
    ],
)
def test_an_interface_without_a_device_is_made_by_software(
    line: str, device: bool, software: str
) -> None:
    net = "/sys/class/net/rail0"
    files = {
        f"{net}/uevent": {f"{net}/uevent": line},
        f"{net}/device/uevent": {f"{net}/device/uevent": "DRIVER=x"} if device else {},
    }
    seen = interface_states((RAIL,)).answer(taken(kernel_files=files))
    assert seen.by_name["rail0"].software == software


# -- the operations


def commands_of(
    monkeypatch: pytest.MonkeyPatch, started: Any, files: dict[str, float], **about: Any
) -> tuple[list[str], str]:
    """Return the commands of ``started``, on a machine whose networkd started at 100 s."""
    unit, net = "systemd-networkd.service", "/sys/class/net"
    readings = {
        "units": {unit: {"active": "active", "enabled": "enabled", **about}},
        "units.started": {unit: {"invocation": "a", "at": 100.0, "stamp": []}},
        "files.changed": {
            path: f"{files[path]:.9f} 7" if path in files else {"absent": True}
            for path in {*files, path_of(RAIL), path_of(MANAGEMENT), "/run/systemd/network"}
        },
        "kernel.files": {
            f"{net}/{name}/{file}": {f"{net}/{name}/{file}": "x=y"}
            for name in ("rail0", "eno1")
            for file in ("uevent", "device/uevent")
        },
        "net.addresses": {"rail0": [], "eno1": ["fd00:2::5"]},
        "net.mtu": {"rail0": 1500, "eno1": 1500},
        "net.gateway": {"ipv6": {"eno1": ["fd00:2::1"]}},
        "net.persisted": {
            f"networkd {name}": {"files": [], "elsewhere": []} for name in ("rail0", "eno1")
        },
        "slurm.steps": 0,
    }
    seen = Taken({name: {"value": value} for name, value in readings.items()})
    lines: list[str] = []
    host = SimpleNamespace(log_styled=lambda line, **_: lines.append(line), noop=lambda _: None)
    monkeypatch.setattr(network, "ask", lambda question: question.answer(seen))
    monkeypatch.setattr(network, "host", host)
    monkeypatch.setattr(of_operations, "host", host)
    monkeypatch.setattr(of_operations, "strictly", nullcontext)
    return [str(command) for command in started()], " ".join(lines)


@pytest.mark.parametrize(
    ("unread", "reloads"),
    [
        ({}, True),
        ({path_of(MANAGEMENT): 50.0, "/run/systemd/network": 50.0}, True),
        ({path_of(MANAGEMENT): 150.0}, False),
        ({path_of(MANAGEMENT): 50.0, "/run/systemd/network": 150.0}, False),
    ],
)
def test_networkd_is_reloaded_only_if_that_reads_nothing_of_the_management_interface(
    unread: dict[str, float], reloads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands, said = commands_of(
        monkeypatch,
        lambda: network.rails_applied._inner(interfaces=(MANAGEMENT, RAIL)),
        {path_of(RAIL): 200.0, **unread},
    )
    assert any("networkctl" in one for one in commands) == reloads
    assert ("rail0: the new configuration waits for the next boot" in said) == (not reloads)


def test_a_change_of_the_management_file_alone_configures_no_rail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = replace(RAIL, name="eno1", mtu=1500)
    commands, said = commands_of(
        monkeypatch,
        lambda: network.rails_applied._inner(interfaces=(replace(MANAGEMENT, name="rail0"), right)),
        {path_of(RAIL): 150.0, path_of(right): 50.0},
    )
    assert (commands, said) == ([], "")


def test_a_program_with_a_file_of_the_management_interface_is_enabled_but_not_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands, _ = commands_of(
        monkeypatch,
        lambda: network.enabled._inner(names=("systemd-networkd.service",)),
        {},
        active="inactive",
        enabled="disabled",
    )
    assert commands == ["systemctl enable systemd-networkd.service"]
    kept: list[tuple[str, ...]] = []
    for name in ("files", "enabled", "rails_applied"):
        monkeypatch.setattr(network, name, lambda **_: None)
    monkeypatch.setattr(network, "keep_units", lambda plan, role, *names: kept.append(names))
    services = (("systemd-networkd.service", (), (), True), ("networking.service", (), (), True))
    monkeypatch.setattr(network, "services_of", lambda plan, role: services)
    network.apply(SimpleNamespace(interfaces=(MANAGEMENT, RAIL)))  # type: ignore[arg-type]
    assert kept == [("networking.service",)]
