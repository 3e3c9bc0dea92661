"""Per-node files, written before the first boot: identity, keys, simulated GPUs."""

import json
import os
import re
import uuid
from functools import cache
from pathlib import Path

from lab import cgroups, gpus, places
from lab.commands import run
from lab.image import USER
from lab.kubernetes import machine
from lab.state import LabState, Node

# Settings for container engines on an overlay without control group controllers. They depend on
# the test machine, not on a role. Docker detects this itself.
CONTAINER_FILES = {
    "etc/containers/storage.conf": (
        '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\n'
        'graphroot = "/var/lib/containers/storage"\n'
    ),
    "etc/containers/containers.conf": "[containers]\npids_limit = 0\n",
    # containerd 1.7 replaces the whole section with that of the last file, so repeat CDI here.
    "etc/containerd/conf.d/50-lab.toml": (
        'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\n  enable_cdi = true\n'
        "  disable_cgroup = true\n  restrict_oom_score_adj = true\n"
        '  [plugins."io.containerd.grpc.v1.cri".containerd]\n    snapshotter = "native"\n'
    ),
}
HOST_KEY = "etc/ssh/ssh_host_ed25519_key"


@cache
def _driver_in(archive_versions: str) -> str:
    """Return the upstream version of the driver in an archive."""
    versions: dict[str, str] = json.loads(Path(archive_versions).read_text())
    return re.sub(r"^\d+:|-[^-]*$", "", versions["libnvidia-ml1"])


def make_lab_key(state: LabState) -> None:
    """Generate the ssh key pair for all nodes of a lab."""
    key = Path(state.ssh_key)
    if not key.exists():
        _generate_key(key, f"lockstep-lab-{state.name}")


def _generate_key(path: Path, comment: str) -> None:
    # ssh-keygen asks before it overwrites; remove an incomplete pair first.
    path.unlink(missing_ok=True)
    path.with_suffix(".pub").unlink(missing_ok=True)
    run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)],
        what=f"generating {path}",
    )


def _public_host_key(lab: str, node: str) -> Path:
    """Return the path of a copy; the disk of a running machine may be inaccessible."""
    return places.node_folder(lab, node) / "ssh_host_key.pub"


def write_identity(state: LabState, node: Node, root: Path) -> None:
    """Write machine id, host key and the lab's public key to a node's disk; idempotent.

    Args:
        state: the lab.
        node: the node.
        root: the node's file system.
    """
    machine_id = root / "etc/machine-id"
    if not machine_id.read_text().strip():
        machine_id.write_text(f"{uuid.uuid4().hex}\n")
    if not (root / HOST_KEY).exists():
        _generate_key(root / HOST_KEY, f"root@{node.name}")
    public = (root / f"{HOST_KEY}.pub").read_text()
    _public_host_key(state.name, node.name).write_text(public)
    account = root / "home" / USER
    owner = account.stat()
    folder = account / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    authorized = folder / "authorized_keys"
    authorized.write_text(Path(state.ssh_key).with_suffix(".pub").read_text())
    authorized.chmod(0o600)
    for path in (folder, authorized):
        os.chown(path, owner.st_uid, owner.st_gid)
    if node.role == "worker" and node.gpus is not None:
        archive = _driver_in(state.archive_versions)
        gpus.install(root, node.name, node.gpus, archive, state.hardware["worker"])
    if state.kernel_of(node.role) == "shared" and state.kubernetes is not None:
        machine.install(root)
    if node.role == "worker" and state.kernel_of(node.role) == "shared":
        cgroups.install(root)
        for relative, text in CONTAINER_FILES.items():
            path = root / relative
            # With Kubernetes, containerd's settings are the role's alone: see ``machine``.
            containerd = relative.startswith("etc/containerd/")
            if not path.exists() and not (containerd and state.kubernetes is not None):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                path.chmod(0o644)
                path.parent.chmod(0o755)


def write_client_files(state: LabState) -> None:
    """Write the lab's known_hosts and ssh_config from the nodes' host keys."""
    known: list[str] = []
    config: list[str] = []
    for node in state.nodes:
        public = _public_host_key(state.name, node.name)
        kind, key = public.read_text().split()[:2]
        known.append(f"{node.address},{node.name} {kind} {key}")
        config.append(
            f"Host {node.name} {node.address}\n"
            f"    HostName {node.address}\n"
            f"    User {state.ssh_user}\n"
            f"    IdentityFile {state.ssh_key}\n"
            "    IdentitiesOnly yes\n"
            f"    UserKnownHostsFile {state.known_hosts}\n"
            "    GlobalKnownHostsFile /dev/null\n"
            "    StrictHostKeyChecking yes\n"
            "    ConnectTimeout 10\n"
        )
    _write_private(Path(state.known_hosts), "\n".join(known) + "\n")
    _write_private(Path(state.ssh_config), "\n".join(config))


def _write_private(path: Path, text: str) -> None:
    unfinished = path.with_suffix(".new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(unfinished, path)
