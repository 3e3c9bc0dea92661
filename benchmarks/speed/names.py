"""Simulates many nodes: a lab's workers answer under many names, each with its own address.

Deploying fifty workers takes half an hour on two processors. A name costs the same as a node: a
connection, a login, a reading by a machine. Names can be read and rerun without changes, but
nothing is deployed to them.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from benchmarks.speed.nodes import on
from benchmarks.speed.paths import INVENTORY, ROOT
from lab.network import address_in
from lab.state import LabState, Node

FIRST_HOST_PART = 0x1000
"""First host part of the names' addresses, above those of all lab nodes."""
READ = '''\
"""The workers of a lab under many names, each a node of the cluster, for readings."""

import runpy
from pathlib import Path
from unittest.mock import patch

import lockstep.lab_path
from lab import state

_lab = state.LabState.model_validate_json(Path({lab!r}).read_text(encoding="utf-8"))
with patch.object(state, "load_or_exit", lambda name=None: _lab):
    _of_lab = runpy.run_path({inventory!r})
_cluster, head, worker = _of_lab["_cluster"], _of_lab["head"], _of_lab["worker"]
'''
FOUND_AS_THEY_ARE = '''\
"""The workers of a lab, each under many names with its own plan, for reruns without changes."""

import runpy
from dataclasses import replace

_of_lab = {{
    called.rpartition("/")[2]: (called, data)
    for called, data in runpy.run_path({inventory!r})["worker"]
}}


def _host(name, machine, address):
    called, data = _of_lab[machine]
    own = {{"ssh_hostname": address, "ssh_known_hosts_file": {known_hosts!r}}}
    # A plan caches its results, so each name needs its own plan, like a node.
    return called.removesuffix(machine) + name, {{**data, **own, "plan": replace(data["plan"])}}


worker = [_host(*one) for one in {names!r}]
'''


@dataclass(frozen=True)
class Names:
    """Files for the workers of a lab under many names."""

    machines: Mapping[str, str]
    """Name -> worker."""
    ssh_config: str
    read: str
    """Inventory in which each name is a node, without the workers themselves."""
    found_as_they_are: str
    """Inventory in which each name has its worker's plan."""


def spread(lab: LabState, count: int) -> dict[str, Node]:
    """Return this number of names, each with an address on a worker, round-robin."""
    workers = cycle([node for node in lab.nodes if node.role == "worker"])
    return {
        f"name{number}": node.model_copy(
            update={
                "address": address_in(lab.prefix, FIRST_HOST_PART + number),
                "fabric_address": address_in(lab.fabric_prefix, FIRST_HOST_PART + number),
            }
        )
        for number, node in zip(range(1, count + 1), workers, strict=False)
    }


def write(folder: Path, lab: LabState, names: Mapping[str, Node]) -> Names:
    """Write the files.

    Args:
        folder: a private folder; secrets are copied to it.
        lab: the lab.
        names: names, each with its worker at the name's address.
    """
    known, config = folder / "known_hosts", folder / "ssh_config"
    keys = {
        line.split()[0].split(",")[1]: line.split(" ", 1)[1]
        for line in Path(lab.known_hosts).read_text(encoding="utf-8").splitlines()
    }
    lines = [f"{node.address},{name} {keys[node.name]}" for name, node in names.items()]
    known.write_text(Path(lab.known_hosts).read_text(encoding="utf-8") + "\n".join(lines) + "\n")
    hosts = [f"Host {name}\n    HostName {node.address}\n" for name, node in names.items()]
    usual = (
        f"Host {' '.join(names)}\n"
        f"    User {lab.ssh_user}\n"
        f"    IdentityFile {lab.ssh_key}\n"
        "    IdentitiesOnly yes\n"
        f"    UserKnownHostsFile {known}\n"
        "    GlobalKnownHostsFile /dev/null\n"
        "    StrictHostKeyChecking yes\n"
        "Match all\n"
        f"    Include {lab.ssh_config}\n"
    )
    config.write_text("".join(hosts) + usual, encoding="utf-8")
    heads = [node for node in lab.nodes if node.role == "head"]
    called = [node.model_copy(update={"name": name}) for name, node in names.items()]
    # A lab keeps secrets and records next to its key; the names need their own copies.
    key = Path(shutil.copy2(lab.ssh_key, folder))
    shutil.copytree(Path(lab.ssh_key).with_name("secrets"), folder / "secrets")
    known_by_name = {
        "nodes": [*heads, *called],
        "known_hosts": str(known),
        "ssh_key": str(key),
    }
    state = folder / "names.json"
    state.write_text(lab.model_copy(update=known_by_name).model_dump_json(), encoding="utf-8")
    inventory, machines = str(ROOT / INVENTORY), {name: node.name for name, node in names.items()}
    read, found = folder / "read.py", folder / "found_as_they_are.py"
    read.write_text(READ.format(lab=str(state), inventory=inventory), encoding="utf-8")
    found.write_text(
        FOUND_AS_THEY_ARE.format(
            inventory=inventory,
            known_hosts=str(known),
            names=[(name, node.name, node.address) for name, node in names.items()],
        ),
        encoding="utf-8",
    )
    return Names(machines, str(config), str(read), str(found))


@contextmanager
def named(lab: LabState, count: int, folder: Path) -> Iterator[Names]:
    """Let the workers answer under this number of names.

    Raises:
        BenchmarkError: adding or removing an address on a worker failed.
    """
    names = spread(lab, count)
    with ExitStack() as added:
        for node in names.values():
            # "replace", because a killed run may have left the address. "deprecated", so that the
            # machine keeps using its own address as the source.
            _address("replace", lab, node, "nodad", "preferred_lft", "0")
            added.callback(_address, "delete", lab, node)
        yield write(folder, lab, names)


def _address(verb: str, lab: LabState, node: Node, *how: str) -> None:
    words = ("ip", "-6", "address", verb, f"{node.address}/64", "dev", "mgmt0", *how)
    on(lab, node.name, shlex.join(words))
