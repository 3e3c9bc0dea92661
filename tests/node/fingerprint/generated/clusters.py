"""Makes clusters, reads their nodes with the real domains, and compares them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from typing_extensions import override

from lockstep.checks.accepting import Accepting
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.checks.engine import REACHABLE
from lockstep.checks.fingerprint.findings import (
    BRANCHES,
    READING,
    FingerprintNotes,
    made,
    places,
)
from lockstep.checks.fingerprint.objects import asked
from lockstep.checks.rules.fingerprint import FAMILY
from lockstep.fleet.request import alike, own
from lockstep.inventory import planned
from lockstep.node.fingerprint import firewall
from lockstep.node.fingerprint.take import fingerprint
from lockstep.node.readers import commands, tree
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Reading, Record, Taken
from lockstep.report import Finding
from lockstep.roles import declared
from lockstep.spec import load
from tests.node.fingerprint.generated import kernel
from tests.node.fingerprint.generated.forms import FORMS, Form
from tests.node.fingerprint.generated.machines import Kind, Machine, kind

NODES = 3
IN_MEMORY = "/dev/shm"
"""Where a node's thousand small files cost a tenth of what they cost on a disk."""
UNITS = "slurmd.service loaded active running Slurm\nssh.service loaded active running SSH\n"
MANAGER = "LogLevel=info\nLogTarget=journal\nDefaultTasksMax={tasks}\nVirtualization=\n"
SOCKETS = (
    "tcp LISTEN 0 128 {address}:22 0.0.0.0:* ino:3 sk:1 cgroup:/system.slice/ssh.service <->\n"
    "udp UNCONN 0 0 [{local}]:123 [::]:* ino:4 sk:2 cgroup:/system.slice/ntpd.service <->\n"
)
STATUS = "Package: munge\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\n\n"
FINGERPRINTS = [rule for rule in all_rules() if rule.id.startswith(FAMILY)]


class Node:
    """A machine with a folder that stands for its /."""

    def __init__(self, machine: Machine, root: Path, draw: Random) -> None:
        """Write all files of a machine."""
        self.machine, self.root = machine, root
        for path, text in kernel.files(machine, draw):
            self.write(path, text)
        for form in FORMS:
            path = form.path(machine)
            if path:
                self.write(path, form.text(machine), form.mode)
        (root / "etc/hostid").write_bytes(machine.host_id.to_bytes(4, "little"))
        for path, target in kernel.links(machine):
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            os.symlink(target, root / path[1:])
        for number, program in ((1, "/usr/lib/systemd/systemd"), (300, "/usr/sbin/slurmd")):
            os.symlink(program, root / f"proc/{number}/exe")
        self.write("/var/lib/dpkg/status", STATUS)
        self.answers = answers(machine, draw)

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file."""
        target = self.root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if mode != 0o644:
            target.chmod(mode)

    def at(self, path: str) -> Path:
        """Return where a path of the node is."""
        return self.root / path[1:]


class Answers(Commands):
    """Answers in place of programs."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        """Load the answers: the beginning of a command -> its output."""
        super().__init__()
        self.answers = answers

    @override
    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        """Return an answer."""
        line = " ".join(argv)
        for beginning, out in self.answers.items():
            if line.startswith(beginning):
                return 0, out, ""
        raise Unread(f"{argv[0]}: not installed")


def answers(machine: Machine, draw: Random) -> dict[str, str]:
    """Return what programs print on a machine."""
    ipv4, ipv6 = kernel.ip(machine)
    return {
        "ip -6": "\n".join(map(json.dumps, ipv6)),
        "ip -force": "\n".join(map(json.dumps, ipv4)),
        "bridge -json fdb": kernel.fdb(machine),
        "bridge": "[]",
        "tc": "",
        "iptables-nft-save": kernel.firewall(machine, draw),
        "systemctl list-units": UNITS,
        "systemctl show --no-pager -p NeedDaemonReload": "",
        "systemctl show": MANAGER.format(tasks=machine.tasks),
        "ss": SOCKETS.format(address=machine.address, local=machine.slaac(machine.ports[0])),
    }


class Cluster:
    """Three equal nodes, drawn from a seed."""

    def __init__(self, seed: str, folder: Path, of: Kind | None = None) -> None:
        """Draw and write the nodes.

        Args:
            seed: makes the same cluster each time.
            folder: an empty folder for the nodes' files.
            of: the kind of nodes; None: drawn as well.
        """
        draw = Random(seed)
        self.kind = of or kind(draw)
        self.plan = plan(self.kind.prefix)
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "iptables-nft-save").write_text("")
        (self.bin / "iptables-nft-save").chmod(0o755)
        self.nodes: dict[str, Node] = {}
        self._first: dict[str, dict[str, Any]] = {}
        for number in range(1, NODES + 1):
            machine = Machine(draw, self.kind, number, NODES)
            self.nodes[machine.name] = Node(machine, folder / machine.name, draw)

    def findings(self) -> list[Finding]:
        """Return all findings of the fingerprints."""
        context = self._context({})
        wanted = asked(places([context]))
        context = self._context(wanted)
        accepting = Accepting([context], REACHABLE)
        raw = made(FINGERPRINTS, [context], (), FingerprintNotes(), accepting)
        return [one.finding for one in raw]

    def _context(self, wanted: Mapping[str, tuple[tuple[str, str], ...]]) -> Context:
        reading: Reading = {name: self._record(name, wanted.get(name, ())) for name in self.nodes}
        return Context(self.plan, reading, lambda _: ())

    def _record(self, name: str, wanted: Iterable[tuple[str, str]]) -> Record:
        node, about = self.nodes[name], self.plan.nodes[name]
        request = {
            "fingerprint": "generated", "own": own(about), "alike": alike(about),
            "asked": list(wanted), "exempt": [], "slow": False, "units": [], "files": [],
        }  # fmt: skip
        with self._on(node):
            sums, branches = fingerprint(request, Answers(node.answers))
        readings = {READING: self._kept(name, sums, bool(request["asked"])), BRANCHES: branches}
        return Record(
            format=1,
            taken_at=1e9,
            duration_s=1.0,
            readings={key: Taken(value=value) for key, value in readings.items()},
        )

    def _kept(self, name: str, sums: dict[str, Any], again: bool) -> dict[str, Any]:
        """Return the first answer: a further question reads only what it asks about."""
        if again:
            return self._first[name]
        self._first[name] = sums
        return sums

    @contextmanager
    def _on(self, node: Node) -> Iterator[None]:
        with (
            patch.object(tree, "ROOT", str(node.root)),
            patch.object(commands, "PATH", str(self.bin)),
            patch.object(firewall, "tables", lambda: None),
        ):
            yield

    def copied(self, form: Form) -> str:
        """Give the last node the file of the first one; return the path at which it must show."""
        first, *_, last = self.nodes.values()
        path = form.path(last.machine)
        if path != form.path(first.machine):
            last.at(path).unlink()
            path = form.path(first.machine)
        last.write(path, form.text(first.machine), form.mode)
        return path


@cache
def plan(prefix: str) -> ClusterPlan:
    """Return the plan of three workers and a head."""
    nodes = {"role": "worker", "hardware": "gpu", "management": "10.20.0.11"}
    head = {"name": "head", "role": "head", "hardware": "gpu", "management": "10.20.0.1"}
    services = ["slurm_controller", "slurm_accounting"]
    cluster, problems = load(
        {
            "name": "generated",
            "networks": {"management": {"prefix": "10.20.0.0/24"}},
            "hardware": {"gpu": {"sockets": 1, "cores_per_socket": 4, "memory_mib": 60000}},
            "nodes": [{**head, "runs": services}, {**nodes, "name": f"{prefix}[1-{NODES}]"}],
            "os": {"release": "debian_13"},
            "scheduler": {"kind": "slurm"},
        },
        declared(),
    )
    assert cluster is not None, problems
    return planned(cluster, inventory="inventories/generated.py")


@contextmanager
def cluster(seed: str, of: Kind | None = None) -> Iterator[Cluster]:
    """Yield a cluster; its files are removed at the end."""
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="lockstep-generated-", dir=place) as folder:
        yield Cluster(seed, Path(folder), of)
