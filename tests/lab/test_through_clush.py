"""``lockstep check --through clush``: the same report with real clush, through a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install"
KEY = "/root/.ssh/id_ed25519"
KEYS = "/home/ops/.ssh/authorized_keys"
SETTINGS = "/root/.config/clustershell"
TREE = "[routes]\nhead: worker1\nworker1: worker2\n"


def write(lab: Lab, node: str, path: str, text: str, owner: str = "root") -> None:
    """Write a file that its owner alone may read; by standard input, for it may be a key."""
    made = f"install -D -m 600 -o {owner} -g {owner} /dev/null {path}; cat >{path}"
    lab.lab("run", node, "--", "sh", "-c", made, stdin=text)


@pytest.fixture(scope="module")
def administered(cluster: Lab) -> Iterator[Lab]:
    """A cluster whose head has clush: as ops to worker1, and from there on to worker2."""
    status = json.loads(cluster.lab("status", "--json").stdout)
    hosts = Path(status["ssh_config"]).with_name("known_hosts").read_text()
    home = "/home/ops/.ssh"
    cluster.on("head", f"{INSTALL} clustershell; ssh-keygen -q -t ed25519 -N '' -f {KEY}")
    cluster.on("worker1", f"{INSTALL} python3-clustershell")
    try:
        private, public = (cluster.on("head", f"cat {KEY}{end}") for end in ("", ".pub"))
        write(cluster, "head", "/root/.ssh/known_hosts", hosts)
        write(cluster, "head", f"{SETTINGS}/clush.conf", "[Main]\nssh_user: ops\n")
        write(cluster, "head", f"{SETTINGS}/topology.conf", TREE)
        write(cluster, "worker1", f"{home}/id_ed25519", private, "ops")
        write(cluster, "worker1", f"{home}/known_hosts", hosts, "ops")
        for worker in ("worker1", "worker2"):
            cluster.on(worker, f"cp -p {KEYS} {KEYS}.before; echo '{public.strip()}' >>{KEYS}")
        yield cluster
    finally:
        for worker in ("worker1", "worker2"):
            cluster.on(worker, f"if [ -e {KEYS}.before ]; then mv {KEYS}.before {KEYS}; fi")
        cluster.on("worker1", f"rm -f {home}/id_ed25519 {home}/known_hosts")
        cluster.on("head", f"rm -rf {KEY} {KEY}.pub /root/.ssh/known_hosts {SETTINGS}")
        for node in ("head", "worker1"):
            cluster.on(node, "apt-get -q -y purge 'python3-clustershell*' 'clustershell*'")
            cluster.on(node, "apt-get -q -y autoremove --purge")


def logins(lab: Lab, node: str, come_from: str) -> int:
    """Return how often sshd of a node let somebody in from another node."""
    address = lab.on(node, f"getent ahosts {come_from}").split()[0]
    found = lab.on(node, f"journalctl -q -u ssh -g 'Accepted .* from {address} ' | wc -l")
    return int(found)


def test_workers_are_read_over_the_gateway_and_drift_is_named(administered: Lab) -> None:
    before = logins(administered, "worker2", "worker1")
    with administered.drifted("worker2"):
        directly = administered.check()
        checked = administered.check("--through", "clush")
    assert ("sysctl.running", "worker2", "net.core.somaxconn") in directly.named
    assert checked.named == directly.named
    assert "read directly" not in checked.text
    assert logins(administered, "worker2", "worker1") == before + 1


def test_fingerprints_are_taken_over_the_gateway(administered: Lab) -> None:
    administered.names_a_file_by_hand("worker2", "--through", "clush")


def test_what_clush_does_not_reach_is_read_directly(administered: Lab) -> None:
    administered.on("worker2", f"cp {KEYS} {KEYS}.all; cp {KEYS}.before {KEYS}")
    try:
        directly = administered.check()
        checked = administered.check("--through", "clush")
    finally:
        administered.on("worker2", f"cat {KEYS}.all >{KEYS}; rm {KEYS}.all")
    assert "not reached through clush, read directly: worker2" in checked.text
    assert checked.named == directly.named


def test_a_node_that_calls_itself_another_is_not_taken_for_it(administered: Lab) -> None:
    """Nor is the other one's record lost."""
    administered.on("worker1", "hostname worker2")
    try:
        checked = administered.check("--through", "clush")
    finally:
        administered.on("worker1", "hostname worker1")
    assert "read directly: worker1" in checked.text
    assert {node for rule, node, _ in checked.named if "host" in rule} == {"worker1"}
