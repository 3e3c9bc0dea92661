"""Nodes without systemd: an sshd each, with the lab's image as root file system, real sudo and PAM.

Forty of them need less memory than two booted machines. They share a network namespace, in which
each has an address of its own.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from lab import image, shared_host
from lab.image import USER

PREFIX = "fd6c:6f63:6b00::"
STARTS_WITHIN_S = 60
START = """\
set -eu
mount -t tmpfs tmpfs {folder}
mkdir {folder}/upper {folder}/work {folder}/root
mount -t overlay overlay -o lowerdir={image},upperdir={folder}/upper,workdir={folder}/work \
    {folder}/root
cd {folder}/root
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p run/sshd run/lock home/{user}/.ssh
hostname {name}
echo {machine} >etc/machine-id
cp {key} etc/ssh/ssh_host_ed25519_key
cp {login} home/{user}/.ssh/authorized_keys
chroot . chown -R {user}: /home/{user}/.ssh
chmod 700 home/{user}/.ssh
chroot . sh -euc {fault}
exec chroot . /usr/sbin/sshd -D -e -o ListenAddress=[{address}]:22 -o MaxStartups=100
"""


class PlainNodes:
    """Some nodes, by their names in a description."""

    def __init__(self, folder: Path, addresses: Mapping[str, str], faults: Mapping[str, str]):
        """Start them; they accept connections when this returns.

        Args:
            folder: for their files.
            addresses: node -> its address, below PREFIX.
            faults: node -> shell commands that run on it before its sshd.
        """
        self.folder, self.addresses = folder, addresses
        self._without_sshd = {name for name, fault in faults.items() if "exec" in fault}
        self.login, self.known_hosts = folder / "login", folder / "known_hosts"
        shared_host.join("test-plain")
        try:
            root = image.ensure("debian_13").root
        finally:
            shared_host.leave("test-plain")
        make_key(self.login)
        self._network = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._nodes: list[subprocess.Popen[bytes]] = []
        try:
            self._join_network()
            for number, name in enumerate(addresses):
                self._nodes.append(self._start(name, number, root, faults.get(name, "true")))
            self._wait()
        except BaseException:
            self.end()
            raise
        self.write_known_hosts()

    def inside(self, *words: str) -> list[str]:
        """Return the command that runs another one in the network of the nodes."""
        return ["nsenter", f"--net=/proc/{self._network.pid}/ns/net", *words]

    def _join_network(self) -> None:
        own = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{self._network.pid}/ns/net").readlink() == own:
            time.sleep(0.05)  # unshare(1) has not come so far
        adds = (f"ip address add {one}/128 dev lo nodad" for one in self.addresses.values())
        script = "\n".join(("ip link set lo up", *adds))
        subprocess.run(self.inside("sh", "-euc", script), check=True)

    def _start(self, name: str, number: int, root: Path, fault: str) -> subprocess.Popen[bytes]:
        folder = self.folder / name
        folder.mkdir()
        make_key(self.folder / f"{name}.key")
        script = START.format(
            folder=folder,
            image=root,
            user=USER,
            name=name,
            machine=f"{number:032x}",
            key=self.folder / f"{name}.key",
            login=self.login.with_suffix(".pub"),
            fault=shlex.quote(fault),
            address=self.addresses[name],
        )
        unshare = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                self.inside(*unshare, "sh", "-c", script), stdout=log, stderr=log
            )

    def _wait(self) -> None:
        end = time.monotonic() + STARTS_WITHIN_S
        for name in self.addresses:
            log = self.folder / f"{name}.log"
            while "Server listening" not in log.read_text() and name not in self._without_sshd:
                assert time.monotonic() < end, f"{name} did not start: {log.read_text()}"
                time.sleep(0.05)

    def write_known_hosts(self) -> None:
        """Write the host keys of all nodes."""
        keys = {name: (self.folder / f"{name}.key.pub").read_text() for name in self.addresses}
        lines = [f"{self.addresses[name]} {key}" for name, key in keys.items()]
        self.known_hosts.write_text("".join(lines))

    def has(self, name: str, path: str) -> bool:
        """Return whether a node has a file."""
        of_node = subprocess.run(
            ["pgrep", "--parent", str(self._nodes[[*self.addresses].index(name)].pid)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()[0]
        return Path(f"/proc/{of_node}/root{path}").exists()

    def end(self) -> None:
        """End all of them; their mounts go with their namespaces."""
        for process in (*self._nodes, self._network):
            process.kill()
            process.wait()


def make_key(path: Path) -> None:
    """Make an ssh key."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(words, check=True)
