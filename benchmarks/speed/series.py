"""The compared commands: how each tool does a task."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.speed.figures import LOCKSTEP
from benchmarks.speed.paths import INVENTORY, ROOT, WORKERS, program
from benchmarks.speed.peers import Peers
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.probe.ship import Request, command

PLAIN = {"LOCKSTEP_FAST": "0"}
FAN_OUT = "64"
"""Default of clush(1)."""
PYINFRA_IDLE = r"Grand total +(\d+) +- +- +\1\b"
"""Matches pyinfra's totals when no operation changed anything and none failed."""
ANSIBLE_IDLE = r"(?s)\A(?!.*changed=[1-9]).*changed=0"
BY_HAND = "apt-get by clush"
NODE_NAMED = "deploy of the node"
NAMES = (
    *(LOCKSTEP, "plain pyinfra", "ansible", "mitogen"),
    *("probe by clush", "testinfra", NODE_NAMED, BY_HAND),
)


@dataclass(frozen=True)
class Series:
    """One tool's way to do a task."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    statuses: tuple[int, ...] = (0,)
    """Exit statuses that mean success."""
    pattern: str = ""
    """Regular expression that matches the output on success."""


def rerun(
    peers: Peers | None, playbook: str, limit: Sequence[str], inventory: str = INVENTORY
) -> list[Series]:
    """Return the series for a rerun without changes; a series that changes something fails."""
    found = []
    for one in apply(peers, playbook, limit, inventory):
        pattern = ANSIBLE_IDLE if "site.yml" in one.argv else PYINFRA_IDLE
        found.append(replace(one, pattern=pattern))
    return found


def apply(
    peers: Peers | None, playbook: str, limit: Sequence[str], inventory: str = INVENTORY
) -> list[Series]:
    """Return the series for deploying workers.

    Args:
        peers: None when they could not be installed.
        playbook: folder of the playbook.
        limit: node names or a group, for both pyinfra and Ansible.
        inventory: pyinfra's inventory.
    """
    limits = [word for name in limit for word in ("--limit", name)]
    lockstep = (program("pyinfra"), "-y", *limits, inventory, WORKERS)
    found = [Series(LOCKSTEP, lockstep), Series("plain pyinfra", lockstep, PLAIN)]
    if peers is None:
        return found
    ansible = (peers.program("ansible-playbook"), "--limit", ",".join(limit), "site.yml")
    words = ("env", f"--chdir={playbook}", *ansible)
    mitogen = {
        "ANSIBLE_STRATEGY": "mitogen_linear",
        "ANSIBLE_STRATEGY_PLUGINS": peers.mitogen_strategies,
    }
    return [*found, Series("ansible", words), Series("mitogen", words, mitogen)]


def check(
    peers: Peers | None,
    tests: str | None,
    ssh_config: str,
    nodes: Sequence[NodePlan],
    inventory: str = INVENTORY,
) -> list[Series]:
    """Return the series for checking nodes; the probe without a check is the lower bound.

    Args:
        peers: None when they could not be installed.
        tests: folder of testinfra's tests, if there are any.
        ssh_config: ssh configuration for the nodes.
        nodes: all nodes.
        inventory: pyinfra's inventory.
    """
    read = rf"read {len(nodes)} of {len(nodes)} nodes"
    # Without what the plan asks besides: the program with it is longer than an argument may be.
    probe = f"sudo -n -H {command(Request())}"
    found = [
        Series(LOCKSTEP, (program("lockstep"), "check", inventory), statuses=(0, 1), pattern=read),
        Series("probe by clush", (*_clush(ssh_config, nodes), probe)),
    ]
    if peers is None or tests is None:
        return found
    options = ("-q", "-p", "no:cacheprovider", "--sudo", f"--ssh-config={ssh_config}")
    testinfra = (peers.program("pytest"), *options, "--rootdir", tests, tests)
    return [*found, Series("testinfra", testinfra, pattern=r"\d+ passed")]


def _clush(ssh_config: str, nodes: Sequence[NodePlan]) -> tuple[str, ...]:
    """Return the clush command prefix for all nodes; it exits with the highest status."""
    names = ",".join(node.name for node in nodes)
    return (program("clush"), "-S", "-f", FAN_OUT, "-o", f"-F {ssh_config}", "-w", names)


def repair(peers: Peers | None, playbook: str, node: str) -> list[Series]:
    """Return the series for repairing one drifted node that must first be found."""
    known = apply(None, playbook, [node])[0]
    lockstep: tuple[str, ...]
    if (ROOT / "lockstep" / "commands" / "repair.py").exists():
        lockstep = (program("lockstep"), "repair", "-y", INVENTORY)
    else:  # run the repair that the finding names
        check_first = shlex.join((program("lockstep"), "check", INVENTORY))
        lockstep = ("sh", "-c", f"{check_first} >/dev/null; {shlex.join(known.argv)}")
    everywhere = [one for one in apply(peers, playbook, ["worker"]) if one.name != LOCKSTEP]
    return [
        Series(LOCKSTEP, lockstep, statuses=(0, 1)),
        Series(NODE_NAMED, known.argv),
        *everywhere,
    ]


def deploy(
    peers: Peers | None, playbook: str, ssh_config: str, nodes: Sequence[NodePlan]
) -> list[Series]:
    """Return the series for deploying fresh workers; installing packages is the lower bound."""
    names = [node.name for node in nodes]
    by_hand = (*_clush(ssh_config, nodes), f"sudo -n sh -c {shlex.quote(installation(nodes[0]))}")
    return [*apply(peers, playbook, names), Series(BY_HAND, by_hand)]


def installation(node: NodePlan) -> str:
    """Return a script that only installs the packages of a node."""
    lines = ["set -e"]
    for file in managed(node, None, "packages"):  # apt's sources, keys and pins
        text = base64.b64encode(file.content).decode("ascii")
        lines.append(f"mkdir -p {file.path.rpartition('/')[0]}")
        lines.append(f"echo {text} | base64 -d >{file.path}")
        lines.append(f"chmod {file.mode} {file.path}")
    versions = node.software.versions
    names = [
        f"{name}={versions[name]}" if name in versions else name for name in node.software.packages
    ]
    return "\n".join(
        [
            *lines,
            "export DEBIAN_FRONTEND=noninteractive LOCKSTEP_DEFER_START=1",
            "apt-get -q update",
            f"apt-get -q -y --no-install-recommends install {shlex.join(names)}",
        ]
    )
