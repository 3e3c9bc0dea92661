"""The lab's machines, end to end: one head and one worker, booted once for this module."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import archive, network, places, state
from lab.errors import LabNotUp
from lab.package_versions import version_key
from lab.state import LabState

NAME = "machines-test"
REPOSITORY = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="making machines needs root")


def lab(*words: str, name: str = NAME) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", "--name", name, *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=900,
    )


def done(*words: str) -> str:
    result = lab(*words)
    assert result.returncode == 0, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def traces(name: str) -> list[str]:
    """Everything on this host that belongs to a lab of that name."""
    namespaces = [space for space in network.namespaces() if space.startswith(f"lockstep-{name}-")]
    mounts = [
        line
        for line in Path("/proc/mounts").read_text().splitlines()
        if f"lockstep-{name}-" in line or str(places.lab_folder(name)) in line
    ]
    processes = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if f"lockstep-{name}-".encode() in path.read_bytes()
    ]
    links = [
        entry["ifname"]
        for entry in json.loads(subprocess.check_output(["ip", "-json", "link"]))
        if entry["ifname"] == network.host_link(name)
    ]
    folders = [str(places.lab_folder(name))] if places.lab_folder(name).exists() else []
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/lockstep-lab/{name}")]
    return [*namespaces, *mounts, *processes, *links, *folders, *groups]


@pytest.fixture(scope="module")
def machines() -> Iterator[LabState]:
    done("up", "--workers", "1")
    yield state.load(NAME)
    done("down")
    assert traces(NAME) == []


@pytest.mark.lab
@needs_root
class TestMachines:
    def test_second_up_changes_nothing(self, machines: LabState) -> None:
        done("up")
        assert state.load(NAME) == machines
        views = json.loads(done("status", "--json"))["nodes"]
        assert [(view["name"], view["condition"]) for view in views] == [
            ("head", "up"),
            ("worker1", "up"),
        ]

    def test_host_keys_are_checked(self, machines: LabState, tmp_path: Path) -> None:
        assert done("ssh", "worker1", "--", "whoami") == "ops\n"
        assert done("ssh", "worker1", "--", "sudo whoami") == "root\n"
        head, worker = (node.address for node in machines.nodes)
        swapped = tmp_path / "known_hosts"
        lines = Path(machines.known_hosts).read_text()
        swapped.write_text(lines.replace(head, "@").replace(worker, head).replace("@", worker))
        for known_hosts in (swapped, Path("/dev/null")):
            options = ["-o", f"UserKnownHostsFile={known_hosts}", "-o", "BatchMode=yes"]
            result = subprocess.run(
                ["ssh", "-F", machines.ssh_config, *options, worker, "true"],
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert result.returncode == 255
            assert "Host key verification failed" in result.stderr

    def test_node_has_no_ipv4_and_no_way_out(self, machines: LabState) -> None:
        listed = json.loads(done("run", "worker1", "--", "ip", "-json", "-4", "address"))
        ipv4 = {entry["ifname"]: entry["addr_info"] for entry in listed if entry}
        assert list(ipv4) == ["lo"]
        routes = done("run", "worker1", "--", "ip", "-6", "route")
        assert "mgmt0" in routes
        assert "default" not in routes
        assert done("run", "worker1", "--", "ip", "-4", "route") == ""

    def test_nodes_reach_each_other(self, machines: LabState) -> None:
        head = machines.node("head").address
        done("run", "worker1", "--", "ping", "-6", "-c1", "-W5", head)

    def test_machines_are_not_clones(self, machines: LabState) -> None:
        for path in ("/etc/machine-id", "/etc/ssh/ssh_host_ed25519_key.pub"):
            contents = {done("run", node.name, "--", "cat", path) for node in machines.nodes}
            assert len(contents) == len(machines.nodes)

    def test_each_systemd_sees_only_its_own_processes(self, machines: LabState) -> None:
        for node in machines.nodes:
            shown = done("run", node.name, "--", "systemctl", "is-system-running")
            assert shown == "running\n"
            # A process of another machine in the same control group would show as 0.
            groups = "/sys/fs/cgroup/system.slice/ssh.service/cgroup.procs"
            assert "0" not in done("run", node.name, "--", "cat", groups).splitlines()

    def test_packages_come_through_the_proxy(self, machines: LabState) -> None:
        done("run", "worker1", "--", "apt-get", "install", "--yes", "tree")
        assert done("run", "worker1", "--", "tree", "--version").startswith("tree ")
        versions = json.loads(Path(machines.archive_versions).read_text())
        query = ["dpkg-query", "--show", "--showformat=${Version}", "tree"]
        assert done("run", "worker1", "--", *query) == versions["tree"]

    def test_run_passes_everything_through(self, machines: LabState) -> None:
        script = 'printf "%s|" "$@"; cat; exit 7'
        result = subprocess.run(
            [
                *(sys.executable, "-m", "lab", "--name", NAME, "run", "worker1"),
                *("--", "sh", "-c", script, "sh", "a b", "", "--", "$HOME"),
            ],
            cwd=REPOSITORY,
            capture_output=True,
            input="given",
            text=True,
            timeout=60,
        )
        assert (result.stdout, result.returncode) == ("a b||--|$HOME|given", 7)

    def test_power_cut_keeps_the_disk_and_boots_anew(self, machines: LabState) -> None:
        boot_id = ["cat", "/proc/sys/kernel/random/boot_id"]
        done("run", "worker1", "--", "sh", "-c", "echo kept > /etc/kept && sync")
        before = done("run", "worker1", "--", *boot_id)
        done("power-cycle", "worker1")
        assert done("run", "worker1", "--", "cat", "/etc/kept") == "kept\n"
        assert done("run", "worker1", "--", *boot_id) != before
        assert done("ssh", "worker1", "--", "true") == ""

    def test_services_do_not_inherit_the_niceness_of_the_command(self, machines: LabState) -> None:
        cycle = [sys.executable, "-m", "lab", "--name", NAME, "power-cycle", "worker1"]
        cycled = subprocess.run(["nice", "-n", "5", *cycle], cwd=REPOSITORY, capture_output=True)
        assert cycled.returncode == 0
        assert done("run", "worker1", "--", "ps", "-o", "ni=", "-p", "1").strip() == "0"

    def test_reboot_from_inside(self, machines: LabState) -> None:
        boot_id = ["cat", "/proc/sys/kernel/random/boot_id"]
        before = done("run", "worker1", "--", *boot_id)
        done("run", "worker1", "--", "systemctl", "reboot")
        done("run", "head", "--", "sh", "-c", _UNTIL_SSH_CHANGES, "sh", _worker_address())
        assert done("run", "worker1", "--", *boot_id) != before
        done("power-cycle", "worker1")  # waits until it is ready, for the next test

    def test_switched_off_node(self, machines: LabState) -> None:
        done("power-off", "worker1")
        status = lab("status")
        assert status.returncode == 1
        assert "off" in status.stdout
        refused = lab("run", "worker1", "--", "true")
        assert refused.returncode == 1
        assert f"lockstep lab --name {NAME} power-on worker1" in refused.stderr
        done("power-on", "worker1")

    def test_a_new_network_has_the_same_mac_addresses(self, machines: LabState) -> None:
        mac_addresses = ["sh", "-c", "cat /sys/class/net/*/address"]
        before = done("run", "worker1", "--", *mac_addresses)
        done("power-off", "worker1")
        network.remove_node(NAME, "worker1")
        done("power-on", "worker1")
        assert done("run", "worker1", "--", *mac_addresses) == before

    def test_cut_network_leaves_the_console(self, machines: LabState) -> None:
        done("cut", "worker1")
        assert lab("ssh", "worker1", "--", "true").returncode == 255
        assert done("run", "worker1", "--", "echo", "here") == "here\n"
        assert lab("status").returncode == 1
        done("reconnect", "worker1")
        done("ssh", "worker1", "--", "true")
        assert lab("status").returncode == 0

    def test_gpu_falls_off_the_bus_and_comes_back(self, machines: LabState) -> None:
        devices = ["sh", "-c", "ls /dev/nvidia[0-9]* | wc -l"]
        assert done("run", "worker1", "--", *devices) == "8\n"
        done("gpu", "worker1", "--gpu", "3", "--remove")
        assert done("run", "worker1", "--", *devices) == "7\n"
        assert len(done("run", "worker1", "--", "nvidia-smi", "-L").splitlines()) == 7
        done("power-cycle", "worker1")
        assert done("run", "worker1", "--", *devices) == "7\n"
        done("gpu", "worker1", "--reset")
        assert done("run", "worker1", "--", *devices) == "8\n"

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("run", "worker9", "--", "true"), "no node 'worker9'; expected one of: head, worker1"),
            (("gpu", "head", "--gpu", "0", "--remove"), "'head' is a head and has no GPUs"),
            (("up", "--workers", "51"), "--workers 51: expected 1 to 50"),
            (("up", "--os", "plan9"), "expected one of: debian_12, debian_13"),
            (("up", "--os", "debian_12"), "runs debian_13"),
            (("run", "head"), "run: no command"),
            (("explode",), "invalid choice: 'explode'"),
        ],
    )
    def test_wrong_use(self, machines: LabState, words: tuple[str, ...], said: str) -> None:
        result = lab(*words)
        assert result.returncode == 3
        assert said in result.stderr


# Waits for the end of the old ssh service, then for the new one (bash's own network redirection).
_UNTIL_SSH_CHANGES = (
    'for wanted in 1 0; do for try in $(seq 300); do bash -c "exec 3<>/dev/tcp/$1/22" '
    "2>/dev/null; now=$?; [ $((now != 0)) = $wanted ] && break; sleep 0.1; done; done"
)


def _worker_address() -> str:
    return state.load(NAME).node("worker1").address


@needs_root
def test_no_lab_names_the_command_that_makes_it() -> None:
    with pytest.raises(LabNotUp, match="lockstep lab --name never-made up"):
        state.load("never-made")
    result = lab("status", name="never-made")
    assert result.returncode == 1
    assert "lockstep lab --name never-made up" in result.stderr


@needs_root
def test_bad_lab_name_is_refused() -> None:
    result = lab("status", name="../x")
    assert result.returncode == 3
    assert "'../x' is invalid" in result.stderr


def test_labs_do_not_share_prefixes_or_links() -> None:
    names = [f"lab{number}" for number in range(1000)]
    assert len({network.prefixes(name)[0] for name in names}) == len(names)
    assert len({network.host_link(name) for name in names}) == len(names)
    assert all(len(network.host_link(name)) <= 15 for name in names)


def test_versions_sort_as_dpkg_sorts_them() -> None:
    ascending = [
        "1.0~rc1-1",
        "1.0-1",
        "1.0-1+b1",
        "1.0-1.1",
        "1.0+dfsg-1",
        "1.0.1-1",
        "1.9",
        "1.10",
    ]
    ascending += ["2a", "2-1", "2.0-0", "1:0.1"]
    ordered = [*ascending[:8], "2-1", "2a", "2.0-0", "1:0.1"]
    assert sorted(ascending, key=version_key) == ordered
    for smaller, larger in itertools.pairwise(ordered):
        subprocess.run(["dpkg", "--compare-versions", smaller, "lt", larger], check=True)


def test_host_sources_are_read_in_both_formats(tmp_path: Path) -> None:
    lists = tmp_path / "sources.list.d"
    lists.mkdir()
    (tmp_path / "sources.list").write_text(
        "# deb http://old.invalid/debian trixie main\n"
        "deb [arch=amd64 signed-by=/x] https://one.invalid/debian/ trixie main contrib # here\n"
        "deb-src http://src.invalid/debian trixie main\n"
    )
    (lists / "two.sources").write_text(
        "# note\nTypes: deb deb-src\nURIs: http://two.invalid/debian\n"
        "Suites: trixie\n trixie-updates\nComponents: main\n\n"
        "Types: deb\nEnabled: no\nURIs: http://off.invalid/\nSuites: trixie\nComponents: main\n\n"
        "Types: deb\nURIs: http://vendor.invalid/\nSuites: any\nComponents: tools\n"
    )
    assert [(source.uri, source.suites) for source in archive.host_sources(tmp_path)] == [
        ("https://one.invalid/debian/", ("trixie",)),
        ("http://two.invalid/debian", ("trixie", "trixie-updates")),
    ]
    assert (
        archive.through_proxy("https://one.invalid/debian/") == "http://HTTPS///one.invalid/debian"
    )
