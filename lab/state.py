"""The state of a lab in ``state.json``, which inventories and tests read."""

import json
import os
import sys
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lab import places
from lab.errors import LabError, LabNotUp, WrongUseError
from lab.processes import ProcessRecord

NodeRole = Literal["head", "worker"]
Kernel = Literal["shared", "own"]
Accelerator = Literal["kvm", "tcg"]


class Hardware(BaseModel):
    """Processors and memory of one node."""

    model_config = ConfigDict(extra="forbid")

    sockets: int
    cores_per_socket: int
    threads_per_core: int
    numa_nodes: int
    memory_mib: int
    """Lower bound of MemTotal of /proc/meminfo, in MiB."""


class Gpus(BaseModel):
    """The simulated GPUs of one node."""

    model_config = ConfigDict(extra="forbid")

    model: str = "h200"
    """A file of lab/nvml/hardware, without its ending."""
    count: int = 8
    vbios: str | None = None
    """VBIOS version of all GPUs; None: the model's."""
    driver: str | None = None
    """Version of the kernel module until a driver is installed; None: the archive's."""


class Node(BaseModel):
    """One machine of the lab."""

    model_config = ConfigDict(extra="forbid")

    name: str
    role: NodeRole
    address: str
    """IPv6 address of the management interface."""
    fabric_address: str | None
    """IPv6 address of the first fabric interface; the head has none."""
    interface: str = "mgmt0"
    """Name of the management interface."""
    fabric_interfaces: list[str] = ["fabric0"]
    """Names of the fabric interfaces, one per rail; unused without a fabric address."""
    gpus: Gpus | None = Gpus()
    """A worker's GPUs; None: it has none. A head never has any."""
    made: bool = False
    """Files and network are complete (False: an ``up`` was killed)."""
    process: ProcessRecord | None = None
    """Keeper or QEMU process of the running machine; None while it is powered off."""


class Served(BaseModel):
    """One package repository of a description, as the lab serves it; its suite is "/"."""

    model_config = ConfigDict(extra="forbid")

    uri: str
    key: str
    """Path of the public key, ASCII-armored."""
    versions: str
    """Path of versions.json: package name -> versions in the repository, newest last."""


class KubernetesRelease(BaseModel):
    """One minor release of Kubernetes that a lab can install."""

    model_config = ConfigDict(extra="forbid")

    series: str
    """The minor release: "1.34"."""
    version: str
    """The whole version: "1.34.4"."""
    packages: Served
    """The repository in place of pkgs.k8s.io/core:/stable:/v1.34/deb/."""


class Kubernetes(BaseModel):
    """What a lab has for Kubernetes: built from the projects' Go modules."""

    model_config = ConfigDict(extra="forbid")

    releases: list[KubernetesRelease]
    """Oldest first."""
    registry: str
    """Address of the registry that has all images, under their names without the host's."""
    images: dict[str, str]
    """Name of an image -> its tag, for those that do not have Kubernetes' version."""
    charts: dict[str, str] = {}
    """Name of a Helm chart -> its address in the registry, without the version."""
    versions: dict[str, str]
    """Name of another component -> its version."""


class LabState(BaseModel):
    """One lab."""

    model_config = ConfigDict(extra="forbid")

    name: str
    os: str
    kernel: Kernel = "shared"
    """Kernel of the workers: the host's (systemd-nspawn) or their own (QEMU)."""
    accelerator: Accelerator | None = None
    """QEMU's accelerator: "kvm" or "tcg" (emulation); None without QEMU."""
    prefix: str
    """The /64 of the management network."""
    fabric_prefix: str
    """The /64 of the fabric network between workers."""
    ssh_user: str = "ops"
    ssh_key: str
    known_hosts: str
    ssh_config: str
    archive_versions: str
    """Path of packages.json: binary package name -> newest version in the archive."""
    repository_uri: str
    """Address of the repository of simulated NVIDIA packages; its suite is "/"."""
    repository_key: str
    """Path of the repository's public key, ASCII-armored."""
    repository_versions: str
    """Path of versions.json: package name -> versions in that repository, newest last."""
    image: str
    """Folder of the image that all nodes share."""
    disks: str | None = None
    """Folder of the initial disks of QEMU nodes."""
    hardware: dict[NodeRole, Hardware]
    nodes: list[Node]
    description: str | None = None
    """Path of the inventory file that describes the lab's cluster; None: inventories/lab.py."""
    repositories: dict[str, Served] = {}
    """Name of a repository of that description -> the simulated one in its place."""
    kubernetes: Kubernetes | None = None
    """None: a lab without ``--kubernetes``."""
    ready: bool = False
    """The first ``up`` has finished and reached all nodes."""

    def kernel_of(self, role: NodeRole) -> Kernel:
        """Return the kernel of nodes with a role.

        Heads have their own one with Slurm only: an emulated API server does not answer within the
        time that kubeadm waits.
        """
        return "shared" if role == "head" and self.kubernetes is not None else self.kernel

    def every_repository(self) -> list[Served]:
        """Return the repositories beside the lab's own."""
        releases = self.kubernetes.releases if self.kubernetes else []
        return [*self.repositories.values(), *(one.packages for one in releases)]

    def node(self, name: str) -> Node:
        """Return the node with this name.

        Raises:
            WrongUseError: the node does not exist; the message lists the existing nodes.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise WrongUseError(
            f"lab {self.name!r} has no node {name!r}; "
            f"expected one of: {', '.join(node.name for node in self.nodes)}",
            f"lockstep lab --name {self.name} status",
        )


def path_of(name: str) -> Path:
    """Return the path of a lab's state file."""
    return places.lab_folder(name) / "state.json"


def read(name: str) -> LabState | None:
    """Return the state of a lab, finished or not; None if the lab does not exist.

    Raises:
        LabError: the file is unreadable or was written by another version.
    """
    path = path_of(name)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    except PermissionError as denied:
        raise LabError(f"{path}: permission denied; the lab belongs to root") from denied
    try:
        return LabState.model_validate_json(text)
    except ValidationError as invalid:
        raise LabError(
            f"{path}: damaged, or written by another version of the lab: {invalid}",
            f"lockstep lab --name {name} down",
        ) from invalid


def read_to_remove(name: str) -> LabState | None:
    """Like ``read``, but also accepts a state of another version, to remove that lab.

    Raises:
        LabError: the nodes and their processes cannot be read.
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
            f"{path_of(name)}: the list of nodes and processes cannot be read: {invalid}",
            f"kill the processes manually (ip netns pids lockstep-{name}-...), then delete "
            f"{places.lab_folder(name)}",
        ) from invalid


def repository_keys(name: str) -> list[str]:
    """Return the keys of a lab's repositories beside its own, for a state of any version."""
    if read_to_remove(name) is None:
        return []
    data = json.loads(path_of(name).read_text())
    releases = (data.get("kubernetes") or {}).get("releases", [])
    served = [*data.get("repositories", {}).values(), *(one["packages"] for one in releases)]
    return [one["key"] for one in served]


def load(name: str | None = None) -> LabState:
    """Return the state of a running lab.

    Args:
        name: the lab's name; None: LOCKSTEP_LAB or "lab".

    Raises:
        LabNotUp: the lab does not exist; the message has the command that creates it.
    """
    chosen = places.lab_name(name)
    state = read(chosen)
    if state is None or not state.ready:
        why = "no lab" if state is None else "an interrupted `up` left an unfinished lab"
        raise LabNotUp(
            f"{path_of(chosen)}: {why} named {chosen!r}", f"lockstep lab --name {chosen} up"
        )
    return state


def load_or_exit(name: str | None = None) -> LabState:
    """Return the state of a running lab, for inventory files; exit with status 3 on errors.

    Raises:
        SystemExit: the lab does not exist; pyinfra shows no traceback for it.
    """
    try:
        return load(name)
    except LabError as error:
        print(f"ERROR {error}", file=sys.stderr)
        raise SystemExit(3) from error


def save(state: LabState) -> None:
    """Write the state file atomically."""
    path = path_of(state.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".new")
    unfinished.write_text(state.model_dump_json(indent=2) + "\n")
    os.replace(unfinished, path)
