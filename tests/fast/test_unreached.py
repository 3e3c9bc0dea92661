"""Over real ssh: each fault of a node has its own message, the same for a run and for a check."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lockstep.fleet.share import Share, dumps
from lockstep.probe.parse import node_of
from lockstep.probe.record import Unreachable
from lockstep.probe.ship import Request
from tests.fast.sshd import SSHD, Hosts

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(SSHD is None, reason="needs sshd (openssh-server)"),
]
Logins = dict[str, dict[str, Any]]

SUDO = {  # host -> what sudo(8) prints there
    "sudo-asks": "sudo: a password is required",
    "sudo-refuses": "ops is not in the sudoers file.",
    "sudo-tty": "sudo: sorry, you must have a tty to run sudo",
}
PRINTS = {  # host -> what each command prints there
    "nologin": "This account is currently not available.",
    "expired": "Password change required but no TTY available.",
    "no-python3": "sh: 1: python3: not found",
}
GOOD = ("good1", "good2")
SAID = {
    "sudo-asks": r"sudo asks for a password\. Next: allow it without a password \(NOPASSWD ",
    "sudo-refuses": r"sudo refuses: the account is not in the sudoers file\. Next: allow it ",
    "sudo-tty": r"sudo refuses, because it wants a terminal \(requiretty\)\. Next: remove 'Def",
    "nologin": r"the login shell of the account lets nobody in \(nologin\)\. Next: give it a sh",
    "expired": r"the password of the account has expired, and must be changed .*Next: change it",
    "no-python3": r"python3 is not installed, or not in the PATH of the account\. Next: install",
    "refuses": r"it refuses connections to port \d+\. Next: start sshd on its console ",
    "hangs": r"port \d+ accepts connections, but no ssh server answers\. Next: look at the node's",
    "no-name": r"its name cannot be resolved \(.+\)\. Next: correct the name, or the name service",
    "no-login": r"sshd refuses the login of nobody \(Authentication failed\)\. Next: look for the",
    "changed": (
        r"the host key of the node has changed: it presents ed25519 (SHA256:\S+), and \S+"
        r"/known_hosts has ed25519 (SHA256:\S+) for '\[127\.0\.0\.1\]:(\d+)'\. It was installed "
        r"anew, or another machine answers in its place\. Next: compare the first fingerprint "
        r"with its own \(on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key\.pub\); if "
        r"they are equal: (ssh-keygen -f \S+ -R \S+); (ssh-keyscan -t ed25519 -p \d+ \S+ >> \S+)"
    ),
    "unknown": (
        r"the host key of the node is unknown: it presents ed25519 (SHA256:\S+), and \S+"
        r"/known_hosts has no key of '\[127\.0\.0\.1\]:\d+'\. Next: compare this fingerprint with "
        r"its own \(on its console: .+\); if they are equal: (ssh-keyscan -t ed25519 .+)"
    ),
    "behind": (
        r"the host key of the jump host 127\.0\.0\.1 is unknown: it presents ed25519 (SHA256:\S+), "
        r"and \S+ has no key of .+ Next: compare this fingerprint .+(ssh-keyscan -t ed25519 .+)"
    ),
}
DEPLOY = """\
from lockstep.roles.operations.operation import operation

@operation()
def last():
    yield "echo python3: $(command -v python3)"

last(name="Last")
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    names = (*SUDO, *PRINTS, "no-login", "changed", "unknown", *GOOD)
    found = Hosts(tmp_path_factory.mktemp("hosts"), names)
    case = " ".join(f'{name}) echo "{line}" >&2;;' for name, line in SUDO.items())
    sudo = found.programs / "sudo"
    sudo.write_text(f"#!/bin/sh\ncase $NODE in {case} esac\nexit 1\n")
    sudo.chmod(0o755)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def silent() -> Iterator[int]:
    """A port on which nothing answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def logins(hosts: Hosts, silent: int, tmp_path: Path) -> Logins:
    found = hosts.logins()
    known = hosts.folder / "known_hosts"
    lines = known.read_text().splitlines()
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "other")], check=True
    )
    other = (tmp_path / "other.pub").read_text().strip()
    ports = {name: f"[127.0.0.1]:{found[name]['ssh_port']} " for name in ("changed", "unknown")}
    lines = [line for line in lines if not line.startswith(tuple(ports.values()))]
    known.write_text("\n".join([*lines, ports["changed"] + other, ""]))
    good = found["good1"]
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    config = tmp_path / "config"
    config.write_text(
        f"Host behind\n  ProxyJump someone@127.0.0.1:{found['unknown']['ssh_port']}\n"
        f"Host 127.0.0.1\n  UserKnownHostsFile {known}\n"
    )
    found["no-login"]["ssh_user"] = "nobody"
    return found | {
        "refuses": {**good, "ssh_port": port},
        "hangs": {**good, "ssh_port": silent},
        "no-name": {**good, "ssh_hostname": "no-name.invalid"},
        "behind": {**good, "ssh_hostname": "behind", "ssh_config_file": str(config)},
    }


@pytest.fixture
def prints(hosts: Hosts) -> Iterator[None]:
    """Has some hosts print a line in place of each command, as their login shells would."""
    case = " ".join(f'{name}) echo "{text}" >&2; exit 1;;' for name, text in PRINTS.items())
    shell = hosts.folder / "shell"
    shell.write_text(f'#!/bin/sh\ncase $NODE in {case} esac\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n')
    shell.chmod(0o755)
    keys = hosts.folder / "authorized"
    key = keys.read_text()
    keys.write_text(f'command="{shell}" {key}')
    try:
        yield
    finally:
        keys.write_text(key)


def assert_said(said: dict[str, str], hosts: Hosts) -> None:
    own = subprocess.run(
        ["ssh-keygen", "-lf", str(hosts.folder / "host.pub")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[1]
    for name, pattern in SAID.items():
        found = re.search(pattern, said[name])
        assert found, f"{name}: {said[name]}"
        assert said[name].count("Next: ") == 1
        if "SHA256" in pattern:
            assert found[1] == own


@pytest.mark.usefixtures("prints")
def test_each_fault_has_a_message_in_runs_and_checks(
    hosts: Hosts, logins: Logins, tmp_path: Path
) -> None:
    """The runs and the check mostly wait, and do so together."""
    inventory = (
        "from pyinfra import config as _config\n_config.CONNECT_TIMEOUT = 5\n"
        + hosts.inventory(logins=logins)
    )
    begun = [hosts.begin(inventory, DEPLOY, "-y", LOCKSTEP_FAST=fast) for fast in ("1", "0")]
    said_by_check = checked(logins, tmp_path)
    ended = [(process.communicate(timeout=60)[0], process.returncode) for process in begun]
    assert_said(said_by_check, hosts)
    for said, status in ended:
        assert status == 1, said
        listing = said.partition(" nodes failed:\n")[2]
        lines = (line.strip().partition(": ") for line in listing.splitlines())
        assert_said({name: text for name, _, text in lines}, hosts)
        assert "Traceback" not in said, said
        assert "[y/n]" not in said, said
        for name in GOOD:
            assert f"[{name}] Success" in re.sub(r"\]\s+", "] ", said), said


def test_what_a_message_says_to_do_helps(hosts: Hosts, logins: Logins, tmp_path: Path) -> None:
    one = {name: logins[name] for name in ("changed", "unknown", "behind")}
    said = checked(one, tmp_path)
    for name in ("unknown", "changed"):
        found = re.search(SAID[name], said[name])
        assert found, said[name]
        for command in (group for group in found.groups() if group.startswith("ssh-key")):
            subprocess.run(command, shell=True, check=True, capture_output=True, timeout=20)
    assert checked({name: one[name] for name in ("changed", "unknown")}, tmp_path) == {}


def checked(logins: Logins, home: Path) -> dict[str, str]:
    """Read hosts as a check does; return why each that could not be read could not."""
    requests = dict.fromkeys(logins, Request())
    share = Share(requests, logins, {}, at_once=32)
    done = subprocess.run(
        [sys.executable, "-m", "lockstep.fleet.shard", "nodes"],
        input=f"{dumps(share)}\n\n",
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = dict(node_of(line.encode()) for line in done.stdout.splitlines())
    assert found.keys() == logins.keys()
    return {name: got.reason for name, got in found.items() if isinstance(got, Unreachable)}
