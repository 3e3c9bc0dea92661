"""Settings of services that await their next start, which roles apply to what is running."""

from __future__ import annotations

from lockstep.facts.services import NotApplied, not_applied
from lockstep.node.fingerprint.not_applied import read_not_applied
from lockstep.node.readers.commands import Commands
from lockstep.question import Taken
from tests.node.fingerprint.daemon_node import LIMITS, STATUS, Node, node

__all__ = ["node"]


def read(node: Node) -> NotApplied:
    node.answer()
    readings = read_not_applied({}, Commands())
    return not_applied().answer(Taken({name: {"value": v} for name, v in readings.items()}))


def test_nothing_waits_on_a_healthy_node(node: Node) -> None:
    assert read(node) == NotApplied({}, {}, ())


def test_limits_and_cpus_of_a_service(node: Node) -> None:
    node.file("/proc/200/limits", LIMITS.replace("524288", "4096  "))
    node.file("/proc/200/status", STATUS.format(uid=107).replace("0-3", "1"))
    waiting = read(node)
    assert waiting.limits == {"munge.service": {"NOFILE": ("1024", "524288")}}
    assert waiting.cpus == {"munge.service": "0-3"}


def test_a_daemon_that_sets_its_own_cpus_is_left_alone(node: Node) -> None:
    node.daemon("slurmd", 301)
    node.link("/proc/301/exe", "/usr/sbin/slurmd")
    node.file("/proc/301/status", STATUS.format(uid=0).replace("0-3", "1"))
    assert read(node).cpus == {}


def test_what_needs_a_restart_is_not_included(node: Node) -> None:
    node.process(200, "/usr/sbin/munged", "-F", nice=5)
    assert read(node) == NotApplied({}, {}, ())


def test_a_socket_that_is_enabled_and_does_not_listen(node: Node) -> None:
    node.unit("sockets.target", "[Unit]\nDescription=x\n", "loaded active active")
    node.unit("dhcp.socket", "[Socket]\nListenStream=/run/dhcp\n", "loaded inactive dead")
    node.unit("dhcp.service", "[Service]\nExecStart=/usr/bin/dhcp\n", "loaded inactive dead")
    node.enable("dhcp.socket", "sockets.target")
    assert read(node).sockets == ("dhcp.socket",)
    node.states["dhcp.socket"] = "loaded active listening"
    assert read(node).sockets == ()
    node.states["dhcp.socket"] = "loaded failed failed"
    assert read(node).sockets == (), "starting a failed socket again would hide the failure"
