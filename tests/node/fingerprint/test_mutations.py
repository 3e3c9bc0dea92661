"""One mutation for each domain of units, daemons and logins: only its own sums change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.tree import Fingerprint
from lockstep.node.readers.commands import Commands
from tests.lab.changes.units import CHANGES
from tests.node.fingerprint.daemon_node import DOMAINS, Node, node

__all__ = ["node"]
SHELL = "printf '{umask}\\n==\\n==\\n==\\n==\\nPATH=/bin\\0'"
SLURMD = "echo 'Slurmd Debug = {debug}'"
SOCKET = "echo 'u_str LISTEN 0 4096 {path} 310294 * 0 <-> ino:42 dev:0/69 peers:'"
MUTATIONS: dict[str, Callable[[Node], object]] = {
    "unit": lambda node: node.file("/etc/systemd/system/own.service", "[Service]\n"),
    "process": lambda node: node.file("/proc/200/coredump_filter", "0000007f\n"),
    "cgroup": lambda node: node.file("/sys/fs/cgroup/system.slice/memory.max", "4096\n"),
    "running": lambda node: node.file("/run/nologin"),
    "listener": lambda node: node.tool("ss", SOCKET.format(path="/run/other")),
    "timer": lambda node: node.file("/var/spool/at/a1", "reboot\n"),
    "slurmd": lambda node: node.tool("scontrol", SLURMD.format(debug=7)),
    "engine": lambda node: node.file("/var/lib/docker/volumes/data/x"),
    "login": lambda node: node.tool("env", SHELL.format(umask="0077")),
}


def sums(node: Node) -> dict[str, object]:
    node.read("unit")  # writes systemctl
    taken = Fingerprint(Own({}), b"key", {}, EXCEPTIONS)
    commands = Commands()
    for domain in DOMAINS:
        if domain.name in MUTATIONS:
            taken.read(domain, {}, commands)
    answer = taken.answer()
    assert answer["unread"] == {}
    return dict(answer["sums"])


@pytest.mark.parametrize("domain", MUTATIONS)
def test_a_mutation_changes_its_domain_and_no_other(node: Node, domain: str) -> None:
    node.file("/proc/sys/net/ipv4/ip_local_port_range", "32768 60999\n")
    node.file("/etc/slurm/slurm.conf")
    node.group("system.slice/slurmd.service")
    node.tool("env", SHELL.format(umask="0022"))
    node.tool("scontrol", SLURMD.format(debug=3))
    node.tool("ss", SOCKET.format(path="/run/one"))
    before = sums(node)
    assert sums(node) == before
    MUTATIONS[domain](node)
    after = sums(node)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert {name.rstrip("!") for name in changed} == {domain}


def test_the_seeded_changes_have_names_domains_and_a_way_back() -> None:
    assert len(CHANGES) >= 60
    assert len({change.name for change in CHANGES}) == len(CHANGES)
    assert {change.domain for change in CHANGES} <= MUTATIONS.keys()
    assert all(change.undo and change.object for change in CHANGES)
    assert all(change.alone == (change.domain == "running") for change in CHANGES)
