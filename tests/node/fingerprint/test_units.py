"""Objects of the domain ``unit``."""

from __future__ import annotations

import pytest

from lockstep.node.fingerprint.unitfiles import Files, settings_of
from tests.node.fingerprint.daemon_node import ADMIN, UNITS, Node, node

__all__ = ["node"]


def test_a_service_that_runs_and_is_enabled(node: Node) -> None:
    assert node.read("unit")["munge.service"] == {
        "enabled": "by multi-user.target.wants",
        "active": "active",
    }


def test_what_systemd_loaded_but_nobody_uses_is_no_object(node: Node) -> None:
    node.unit("rescue.service", "[Service]\nType=oneshot\n", "loaded inactive dead")
    node.states["lost.service"] = "not-found inactive dead"
    node.states["dev-vda.device"] = "loaded active plugged"
    node.states["session-3.scope"] = "loaded active running"
    node.states["home.mount"] = "loaded active mounted"
    assert sorted(node.read("unit")) == [
        "multi-user.target", "munge.service", "slurm.service", "systemd"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("loaded inactive dead", "inactive"),
        ("loaded failed failed", "failed"),
        ("loaded activating start", "active"),
        ("loaded reloading reload", "active"),
        ("loaded activating auto-restart", "failing"),
    ],
)
def test_states_are_reduced(node: Node, state: str, shown: str) -> None:
    node.states["munge.service"] = state
    assert node.read("unit")["munge.service"]["active"] == shown


def test_masked_and_disabled(node: Node) -> None:
    node.link(f"{ADMIN}/munge.service", "/dev/null")
    assert node.read("unit")["munge.service"]["enabled"] == "masked"
    (node.root / f"{ADMIN[1:]}/munge.service").unlink()
    (node.root / f"{ADMIN[1:]}/multi-user.target.wants/munge.service").unlink()
    assert node.read("unit")["munge.service"]["enabled"] == "disabled"
    node.link(f"/run{ADMIN[4:]}/munge.service", "/dev/null")
    assert node.read("unit")["munge.service"]["enabled"] == "masked"


def test_a_unit_of_the_administrator_is_an_object_without_running(node: Node) -> None:
    node.file(f"{ADMIN}/own.service", "[Service]\nExecStart=/bin/true\n[Install]\nAlias=x\n")
    assert node.read("unit")["own.service"] == {"enabled": "disabled", "active": "inactive"}


def test_an_alias_belongs_to_its_unit(node: Node) -> None:
    node.link(f"{ADMIN}/munged.service", f"{UNITS}/munge.service")
    seen = node.read("unit")
    assert seen["munge.service"]["aliases"] == "munged.service"
    assert "munged.service" not in seen


def test_a_oneshot_service_has_a_state_only_if_it_remains_or_failed(node: Node) -> None:
    node.unit("once.service", "[Service]\nType=oneshot\n", "loaded active exited")
    node.enable("once.service")
    assert "active" not in node.read("unit")["once.service"]
    node.states["once.service"] = "loaded failed failed"
    assert node.read("unit")["once.service"]["active"] == "failed"
    node.unit(
        "once.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\n", "loaded active exited"
    )
    assert node.read("unit")["once.service"]["active"] == "active"


def test_a_service_of_the_first_boot_has_no_state(node: Node) -> None:
    text = "[Unit]\nConditionFirstBoot=yes\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
    node.unit("first.service", text, "loaded active exited")
    node.enable("first.service", "sysinit.target")
    assert node.read("unit")["first.service"] == {"enabled": "by sysinit.target.wants"}


@pytest.mark.parametrize(
    "text", ["[Service]\nType=dbus\nBusName=org.x\n", "[Service]\nExecStart=/bin/x\n"]
)
def test_a_service_that_dbus_or_a_socket_starts_comes_and_goes(node: Node, text: str) -> None:
    node.unit("asked.service", text)
    if "BusName" not in text:
        node.unit("asked.socket", "[Socket]\nListenStream=7\n", "loaded active listening")
        node.enable("asked.socket", "sockets.target")
    seen = node.read("unit")
    assert "asked.service" not in seen
    node.states["asked.service"] = "loaded failed failed"
    assert node.read("unit")["asked.service"]["active"] == "failed"


def test_names_that_systemd_run_invents(node: Node) -> None:
    node.states["run-r0123456789abcdef.service"] = "loaded active running"
    node.states["run-p77-i78.service"] = "loaded active running"
    assert "run-*.service" not in node.read("unit")
    node.states["run-u7.service"] = "loaded failed failed"
    assert node.read("unit")["run-*.service"] == {"active": "failed"}


def test_properties_that_were_set(node: Node) -> None:
    node.file("/run/systemd/system.control/munge.service.d/50-CPUWeight.conf",
              "# This is a drop-in\n[Service]\nCPUWeight=50\n")  # fmt: skip
    assert node.read("unit")["munge.service"]["set-property"] == "CPUWeight=50"


def test_pid_1_has_its_own_object(node: Node) -> None:
    before = node.read("unit")["systemd"]
    assert before["DefaultTasksMax"] == "15 % of the kernel's limit"
    node.manager["LogLevel"] = "debug"
    node.manager["Environment"] = "B=2 A=1"
    after = node.read("unit")["systemd"]
    assert (after["LogLevel"], after["environment B"]) == ("debug", "2")


def test_the_kernels_limit_of_tasks_may_differ_by_a_few_pages(node: Node) -> None:
    before = node.read("unit")["systemd"]
    node.file("/proc/sys/kernel/threads-max", "192903\n")
    node.manager["DefaultTasksMax"] = str(192903 * 15 // 100)
    assert node.read("unit")["systemd"] == before
    node.manager["DefaultTasksMax"] = "512"
    assert node.read("unit")["systemd"]["DefaultTasksMax"] == "512"


def test_users_whose_units_run_without_login(node: Node) -> None:
    node.file("/var/lib/systemd/linger/munge")
    assert "user munge" in node.read("unit")


@pytest.mark.parametrize(
    "name",
    ["user@1000.service", "user-runtime-dir@0.service", "sshd@5-10.0.0.1:22-10.0.0.9:51000.service",
     "systemd-fsck@dev-disk-by\\x2duuid-77.service"],
)  # fmt: skip
def test_each_exception_is_needed_and_spares_its_neighbour(node: Node, name: str) -> None:
    node.states[name] = "loaded active running"
    assert name not in node.read("unit")
    neighbour = "x" + name
    node.states[neighbour] = "loaded active running"
    assert neighbour in node.read("unit") or name.startswith("systemd")


def test_settings_of_several_files(node: Node) -> None:
    node.file("/a", "[Service]\nEnvironment=A=1\nNice=1 \n# Nice=7\nExecStart=/a \\\n  -b\n")
    node.file("/b", "[Service]\nNice=\nNice=5\nEnvironment=B=2\n")
    assert settings_of(["/a", "/b"]) == {
        "Service.Environment": ["A=1", "B=2"],
        "Service.Nice": ["5"],
        "Service.ExecStart": ["/a  -b"],
    }


def test_files_are_found_as_systemd_finds_them(node: Node) -> None:
    node.file(f"{UNITS}/a-b@.service", "x")
    node.file(f"{UNITS}/service.d/1.conf", "x")
    node.file(f"{UNITS}/a-.service.d/2.conf", "x")
    node.file(f"{ADMIN}/a-b@.service.d/3.conf", "x")
    node.file(f"{ADMIN}/a-b@c.service.d/2.conf", "x")
    node.file(f"{UNITS}/a-b@c.service.d/0.conf", "x")
    files = Files()
    assert files.fragment("a-b@c.service") == f"{UNITS}/a-b@.service"
    assert files.drop_ins("a-b@c.service") == [
        f"{UNITS}/a-b@c.service.d/0.conf", f"{UNITS}/service.d/1.conf",
        f"{ADMIN}/a-b@c.service.d/2.conf", f"{ADMIN}/a-b@.service.d/3.conf",
    ]  # fmt: skip
