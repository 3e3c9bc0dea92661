"""The packet filter on real machines: what is declared answers, and nothing else."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.lab.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]
INVENTORY = "tests/lab/firewall_inventory.py"
ROLES = ("--data", "roles=os_settings,packages,firewall", "--data", "compare=no")
PORT = 8888
"""No role declares it, and a server listens there."""


@pytest.fixture(scope="module")
def filtered() -> Iterator[Lab]:
    """A lab of its own: a flushed rule set takes the chains of container engines with it."""
    with Lab("test-firewall").booted(workers=1) as lab:
        deployed = lab.deploy()
        assert deployed.status == 0, deployed.errors
        yield lab


@pytest.fixture
def server(filtered: Lab) -> Iterator[str]:
    """The address of a worker on which a server listens that no role knows."""
    shown = json.loads(filtered.lab("status", "--json").stdout)
    address = next(str(one["address"]) for one in shown["nodes"] if one["name"] == "worker1")
    serves = f"python3 -m http.server --bind :: {PORT}"
    filtered.on("worker1", f"systemd-run --collect -q -u other {serves}")
    listens = f"ss -Hltn sport = {PORT} | grep -q ."
    filtered.on("worker1", f"for i in $(seq 100); do {listens} && exit; sleep 0.2; done; exit 1")
    yield address
    filtered.on("worker1", "systemctl stop other")


def answers(address: str, port: int) -> bool:
    """Whether a port answers this machine, which is on the management network and no node."""
    try:
        with socket.create_connection((address, port), timeout=5):
            return True
    # nftables refuses with "port unreachable", firewalld with "administratively prohibited".
    except (ConnectionRefusedError, PermissionError):
        return False


def deploy(lab: Lab) -> list[str]:
    changed = []
    for name in ("head", "worker"):
        done = lab.deploy(f"deploys/{name}.py", *ROLES, inventory=INVENTORY)
        assert done.status == 0, done.errors
        changed += done.changed
    return changed


def remove(lab: Lab, inventory: str) -> None:
    removed = lab.deploy("deploys/remove.py", inventory=inventory)
    assert removed.status == 0, removed.errors


@pytest.mark.parametrize(
    ("kind", "breaks", "found"),
    [
        ("nftables", "nft flush ruleset", "no rules"),
        ("firewalld", "firewall-cmd -q --add-port=8888/tcp", "additional: ports: 8888/tcp"),
    ],
)
def test_what_is_declared_answers_and_nothing_else(
    filtered: Lab, server: str, kind: str, breaks: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIREWALL", kind)
    assert answers(server, PORT)
    deploy(filtered)
    try:
        assert deploy(filtered) == []
        for port in (22, 6818, 9100):
            assert answers(server, port)
        assert not answers(server, PORT)
        # Nodes trust each other: srun and MPI listen where they like.
        reach = f"import socket; socket.create_connection(('{server}', {PORT}), 5)"
        filtered.on("head", f'python3 -c "{reach}"')
        filtered.on("head", "srun --immediate=60 -w worker1 hostname")

        filtered.on("worker1", breaks)
        assert answers(server, PORT)
        broken = filtered.check("--rule", "firewall.*", inventory=INVENTORY).findings
        assert [(one["rule"], one["node"]) for one in broken] == [("firewall.rules", "worker1")]
        assert found in broken[0]["found"]
        deploy(filtered)
        assert not answers(server, PORT)
        assert filtered.check("--rule", "firewall.*", inventory=INVENTORY).findings == []
    finally:
        remove(filtered, "inventories/lab.py")
        for node in ("head", "worker1"):
            filtered.on(node, "apt-get -q -y purge nftables firewalld")
    # Without a declared filter, everything answers again.
    assert answers(server, PORT)
