"""Reads the nodes over the connections of testinfra, with the probe of ``lockstep check``."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple
from urllib.parse import urlencode

import testinfra
from testinfra.host import Host

from lockstep import faults
from lockstep.fleet.request import Asked, own, request
from lockstep.plan import ClusterPlan, NodePlan
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.parse import parse
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.probe.ship import Request, in_pieces
from lockstep.reading import with_branches
from lockstep.spec import Service

AT_ONCE = 64
CONNECT_TIMEOUT_S = 10
NODE_TIMEOUT_S = 60
TIMED_OUT = (124, 137)
"""Exit statuses of timeout(1): ended, and killed because it did not end."""


class Connection(NamedTuple):
    """How one node is reached, and what makes us root there."""

    host: Host
    prefix: str


def take(plan: ClusterPlan, connections: Mapping[str, Connection], *, hashed: bool) -> Reading:
    """Read nodes, all at the same time; ask those whose fingerprints differ once more.

    Args:
        plan: the plan of the cluster.
        connections: node -> how it is reached.
        hashed: whether to take fingerprints.
    """
    reading = read_all(plan, connections, hashed=hashed)
    if not hashed:
        return reading

    def ask(plan: ClusterPlan, wanted: Mapping[str, Asked]) -> Reading:
        requests = {name: question(plan.nodes[name], asked=one) for name, one in wanted.items()}
        return read_each(connections, requests)

    return with_branches(plan, reading, ask)


def by_ssh(plan: ClusterPlan, config: Path) -> dict[str, Connection]:
    """Return a connection to every node, with the configuration that ``ssh_config`` wrote."""
    return {
        name: Connection(
            testinfra.get_host(
                f"ssh://{name}",
                ssh_config=str(config),
                timeout=CONNECT_TIMEOUT_S,
                controlpersist=0,
            ),
            "sudo -n -H ",
        )
        for name in plan.nodes
    }


def addresses(plan: ClusterPlan, config: Path) -> list[str]:
    """Return every node as testinfra's ``--hosts`` takes it: with root's rights on the node."""
    how: dict[str, str | int] = {
        "ssh_config": str(config),
        "timeout": CONNECT_TIMEOUT_S,
        "controlpersist": 0,
    }
    if plan.spec.access.user != "root":
        how["sudo"] = "true"
    return [f"ssh://{name}?{urlencode(how)}" for name in plan.nodes]


def node_of(plan: ClusterPlan, host: Host) -> str | None:
    """Return the node to which a connection of testinfra leads; None if it is no node."""
    name: str = host.backend.get_hostname()
    nodes = {name: name for name in plan.nodes}
    return (nodes | {node.address: name for name, node in plan.nodes.items()}).get(name)


def question(
    node: NodePlan, credential: str | None = None, *, fingerprint: bool = True, asked: Asked = ()
) -> Request:
    """Return what one node is asked."""
    wanted = request(node, fingerprint=fingerprint, asked=asked)
    return replace(wanted, credential=credential, own=own(node) if wanted.fingerprint else ())


def read_all(plan: ClusterPlan, connections: Mapping[str, Connection], *, hashed: bool) -> Reading:
    """Read every node: the controller first, whose credential the others decode."""
    controller = plan.running(Service.SLURM_CONTROLLER)
    reading: Reading = {}
    credential: str | None = None
    if controller is not None and controller.name in connections:
        wanted = question(controller, fingerprint=hashed)
        got = read(connections[controller.name], wanted)
        reading[controller.name] = got
        made = got.get("munge.credential") if isinstance(got, Record) else None
        credential = made if isinstance(made, str) else None
    others = {
        name: question(plan.nodes[name], credential, fingerprint=hashed)
        for name in connections
        if name not in reading
    }
    return {**reading, **read_each(connections, others)}


def read_each(connections: Mapping[str, Connection], requests: Mapping[str, Request]) -> Reading:
    """Read several nodes at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda name: read(connections[name], requests[name]), requests)
        return dict(zip(requests, answers, strict=True))


def read(way: Connection, asked: Request) -> Record | Unreachable:
    """Read one node through testinfra, which gives commands no standard input."""
    try:
        for command in in_pieces(asked, f"/run/lockstep-check-{token_hex(8)}"):
            # Below sudo: only root may end what root started.
            done = way.host.run(f"{way.prefix}timeout -k 5 {NODE_TIMEOUT_S} {command}")
            if done.rc != 0:
                break
    except RuntimeError as error:  # testinfra raises it, with the result, where ssh itself failed
        said = getattr(error.args[0], "stderr", str(error)).strip().splitlines()
        last = said[-1] if said else "exit 255"
        return Unreachable(faults.of_ssh(said) or f"ssh: {last.removeprefix('ssh: ')}")
    if done.rc in TIMED_OUT:
        return Unreachable(f"no record within {NODE_TIMEOUT_S} s{faults.NEXT}{faults.HANGS}")
    if done.rc != 0 and (fault := faults.of_output(f"{done.stdout}\n{done.stderr}".splitlines())):
        return Unreachable(fault)
    if done.rc != 0:
        said = (done.stderr or done.stdout or "no message").strip().splitlines()
        return Unreachable(f"reached by ssh, but the probe failed: {said[-1][:200]}")
    try:
        return parse(done.stdout)
    except ProbeFormatError as error:
        return Unreachable(f"reached by ssh, but the output is not a record: {error}")


def ssh_config(plan: ClusterPlan, folder: Path) -> Path:
    """Write the connections of the inventory as an ssh configuration; host keys are checked."""
    access = plan.spec.access
    lines = ["Host *", f"  User {access.user}", f"  Port {access.port}"]
    lines += ["  StrictHostKeyChecking yes", "  BatchMode yes"]
    # If a node freezes after the login, no command of ours ends: ssh itself closes the connection.
    lines += ["  ServerAliveInterval 15", f"  ServerAliveCountMax {NODE_TIMEOUT_S // 15}"]
    if access.key:
        lines += [f'  IdentityFile "{access.key}"', "  IdentitiesOnly yes"]
    if access.known_hosts:
        lines.append(f'  UserKnownHostsFile "{access.known_hosts}"')
    for name, node in plan.nodes.items():
        lines += [f"Host {name}", f"  HostName {node.address}"]
    path = folder / "config"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
