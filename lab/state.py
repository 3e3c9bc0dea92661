"""What a lab is made of, written to ``state.json``: the interface to inventories and tests."""

import json
import os
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lab import places
from lab.errors import LabError, LabNotUp, WrongUseError
from lab.processes import ProcessRecord

Role = Literal["head", "worker"]
Kernel = Literal["shared", "own"]
Accelerator = Literal["kvm", "tcg"]


class Hardware(BaseModel):
    """Processors and memory of one node, as the lab made it."""

    model_config = ConfigDict(extra="forbid")

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    numa_nodes: int
    memory_mib: int
    """At least this much is MemTotal of /proc/meminfo, in MiB."""


class Node(BaseModel):
    """One machine of the lab."""

    model_config = ConfigDict(extra="forbid")

    name: str
    role: Role
    address: str
    """IPv6 address of ``mgmt0``."""
    fabric_address: str | None
    """IPv6 address of ``fabric0``; the head has none."""
    made: bool = False
    """Its files and network are complete (False: an ``up`` was killed in between)."""
    process: ProcessRecord | None = None
    """The keeper or QEMU process of the running machine; None while it is switched off."""


class LabState(BaseModel):
    """One lab."""

    model_config = ConfigDict(extra="forbid")

    name: str
    os: str
    kernel: Kernel = "shared"
    """Whose kernel the nodes run: the host's (systemd-nspawn) or one of their own (QEMU)."""
    accelerator: Accelerator | None = None
    """What runs the processors of nodes with their own kernel: "kvm" or "tcg" (emulation)."""
    prefix: str
    """The /64 of the management network."""
    fabric_prefix: str
    """The /64 of the second network, between workers."""
    ssh_user: str = "ops"
    ssh_key: str
    known_hosts: str
    ssh_config: str
    archive_versions: str
    """Path of packages.json: binary package name -> newest version in the archive."""
    repository_uri: str
    """Address of the repository of NVIDIA's packages (stand-ins); its suite is "/"."""
    repository_key: str
    """Path of its public key, ASCII-armored."""
    repository_versions: str
    """Path of versions.json: package name -> its versions in that repository, newest last."""
    image: str
    """Folder of the image all nodes share."""
    disks: str | None = None
    """Folder of the disks that nodes with their own kernel start with."""
    hardware: dict[Role, Hardware]
    nodes: list[Node]
    ready: bool = False
    """All nodes were reached once (False: the first ``up`` did not finish)."""

    def node(self, name: str) -> Node:
        """The node of that name.

        Raises:
            WrongUseError: there is none; the message lists those there are.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise WrongUseError(
            f"lab {self.name!r} has no node {name!r}; "
            f"it has: {', '.join(node.name for node in self.nodes)}",
            f"python -m lab --name {self.name} status",
        )


def path_of(name: str) -> Path:
    """The state file of a lab."""
    return places.lab_folder(name) / "state.json"


def read(name: str) -> LabState | None:
    """The state of a lab, finished or not; None when there is none.

    Raises:
        LabError: the file is not readable as a state of this version.
    """
    path = path_of(name)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except PermissionError as denied:
        raise LabError(f"{path}: not readable by this user; the lab belongs to root") from denied
    try:
        return LabState.model_validate_json(text)
    except ValidationError as invalid:
        raise LabError(
            f"{path}: not a state file of this version of the lab: {invalid}",
            f"python -m lab --name {name} down",
        ) from invalid


def read_to_remove(name: str) -> LabState | None:
    """As ``read``, but forgiving: a state of another version still says what must be removed.

    Raises:
        LabError: not even the nodes and their processes can be read.
    """
    try:
        return read(name)
    except LabError:
        data = json.loads(path_of(name).read_text())
    try:
        nodes = [
            Node.model_validate(
                {key: value for key, value in node.items() if key in Node.model_fields}
            )
            for node in data["nodes"]
        ]
        return LabState.model_construct(**{**data, "name": name, "nodes": nodes})
    except (KeyError, TypeError, AttributeError, ValidationError) as invalid:
        raise LabError(
            f"{path_of(name)}: does not say which nodes and processes the lab has: {invalid}",
            f"end them by hand (ip netns pids lockstep-{name}-...), then delete "
            f"{places.lab_folder(name)}",
        ) from invalid


def load(name: str | None = None) -> LabState:
    """The state of a lab that is up.

    Args:
        name: its name; None means LOCKSTEP_LAB, else "lab".

    Raises:
        LabNotUp: there is no such lab; the message names the command that makes it.
    """
    chosen = places.lab_name(name)
    state = read(chosen)
    if state is None or not state.ready:
        why = "there is no lab" if state is None else "an interrupted `up` left an unfinished lab"
        raise LabNotUp(
            f"{path_of(chosen)}: {why} named {chosen!r}", f"python -m lab --name {chosen} up"
        )
    return state


def load_or_exit(name: str | None = None) -> LabState:
    """The state of a lab that is up, for inventory files: a message and status 3 otherwise.

    Raises:
        SystemExit: there is no such lab; pyinfra lets it pass without a traceback.
    """
    try:
        return load(name)
    except LabError as error:
        print(f"ERROR {error}", file=sys.stderr)
        raise SystemExit(3) from error


def save(state: LabState) -> None:
    """Write the state file whole or not at all."""
    path = path_of(state.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    unfinished.write_text(state.model_dump_json(indent=2) + "\n")
    os.replace(unfinished, path)
