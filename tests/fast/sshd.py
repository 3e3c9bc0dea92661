"""Hosts for tests over real ssh: an sshd on loopback for each, with its own port and faults.

Nothing of them needs root: each lets in the account that runs the tests, and nobody else. Their
environment says which host it is (``NODE``), and finds the programs of a folder first.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Host:
    """One sshd."""

    name: str
    port: int
    process: subprocess.Popen[bytes]

    def end(self) -> None:
        """End it, and its sessions, one of which may be stopped."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.process.terminate()
        self.process.wait(20)
        for pid in map(int, listed.split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Hosts:
    """Some hosts, and runs of pyinfra against them."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        """Start them; they accept connections when this returns."""
        self.folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir()
        for key in ("host", "login"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
            subprocess.run(words, check=True)
        shutil.copy(folder / "login.pub", folder / "authorized")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd's own, where it is root
        self.hosts = {name: self._start(name) for name in names}
        self.cables = {
            name: subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.fast.cuttable_proxy",
                    str(one.port),
                    f"{folder}/{name}.is-cut",
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name, one in self.hosts.items()
            if "cut" in name
        }
        ports = {name: int(_printed(cable)) for name, cable in self.cables.items()}
        self.ports = {name: one.port for name, one in self.hosts.items()} | ports

    def _start(self, name: str) -> Host:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        path = f"{self.programs}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        config = self.folder / f"{name}.conf"
        config.write_text(
            f"ListenAddress 127.0.0.1:{port}\n"
            f"HostKey {self.folder}/host\nAuthorizedKeysFile {self.folder}/authorized\n"
            "UsePAM no\nStrictModes no\nPidFile none\nPasswordAuthentication no\n"
            f"Subsystem sftp internal-sftp\nSetEnv NODE={name} PATH={path}\n"
        )
        assert SSHD is not None
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return Host(name, port, process)
        process.kill()
        raise TimeoutError((self.folder / f"{name}.log").read_text())

    def logins(self) -> dict[str, dict[str, Any]]:
        """Return pyinfra's data of all of them; ``sudo`` in a name has it used."""
        known = self.folder / "known_hosts"
        key = (self.folder / "host.pub").read_text().strip()
        known.write_text("".join(f"[127.0.0.1]:{port} {key}\n" for port in self.ports.values()))
        shared = {
            "ssh_hostname": "127.0.0.1",
            "ssh_user": getpass.getuser(),
            "ssh_key": str(self.folder / "login"),
            "ssh_known_hosts_file": str(known),
            "ssh_strict_host_key_checking": "yes",
        }
        return {
            name: {**shared, "ssh_port": port, "_sudo": "sudo" in name}
            for name, port in self.ports.items()
        }

    def inventory(
        self, connector: str = "@lockstep/", logins: dict[str, dict[str, Any]] | None = None
    ) -> str:
        """Return the text of an inventory with all of them, or with other data."""
        logins = self.logins() if logins is None else logins
        return f"hosts = {[(f'{connector}{name}', data) for name, data in logins.items()]!r}\n"

    def begin(
        self,
        inventory: str,
        deploy: str,
        *options: str,
        terminal: int = subprocess.PIPE,
        **environment: str,
    ) -> subprocess.Popen[str]:
        """Start a run of pyinfra; it has one Enter to read, and both streams in one."""
        (self.folder / "inventory.py").write_text(inventory, encoding="utf-8")
        (self.folder / "deploy.py").write_text(deploy, encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "pyinfra", *options, "inventory.py", "deploy.py"],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "XDG_STATE_HOME": str(self.folder / "state"),
                "NO_COLOR": "1",
                "PYINFRA_PROGRESS": "off",
                **environment,
            },
            stdin=subprocess.PIPE,
            stdout=terminal,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # getpass finds no terminal
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.close()
        process.stdin = None
        return process

    def end(self) -> None:
        """End all of them."""
        for cable in self.cables.values():
            cable.kill()
            cable.communicate()
        for one in self.hosts.values():
            one.end()


def _printed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
