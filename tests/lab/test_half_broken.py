"""Forty nodes, four of them half-broken: a deploy finishes on the others, and names the four."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.labs import PYTHON, ROOT
from tests.lab.plain_nodes import PREFIX, PlainNodes, make_key

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FAULTS = {  # node -> what is done to it before its sshd starts
    "gpu07": "printf 'ForceCommand sleep infinity\n' >/etc/ssh/sshd_config.d/99-test.conf",
    "gpu13": "true",  # its key changes
    "gpu21": "rm /etc/sudoers.d/ops",
    "gpu30": "rm /usr/bin/python3*",
}
CHANGED = "gpu13"
SAID = {
    "gpu07": r"no (message|record) within 60 s\. Next: run a command on the node by hand",
    "gpu13": r"the host key of the node has changed: .* SHA256:\S+, and .* SHA256:\S+ .*Next: .*"
    r"ssh-keygen -f \S+ -R fd6c\S+; ssh-keyscan -t ed25519 fd6c",
    "gpu21": r"sudo asks for a password\. Next: allow it without a password \(NOPASSWD",
    "gpu30": r"python3 is not installed, or not in the PATH of the account\. Next: install python3",
}
MORE = {  # node -> a fault, and what a run says of it
    "gpu01": (
        "echo 'Defaults requiretty' >/etc/sudoers.d/zz",
        r"sudo refuses, because it wants a terminal \(requiretty\)\. Next: ",
    ),
    "gpu02": (
        "printf 'Defaults:ops !authenticate\nops ALL=(ALL) /bin/true\n' >/etc/sudoers.d/ops",
        r"sudo refuses: sudoers does not allow this account .*\. Next: ",
    ),
    "gpu03": (
        "echo 'Defaults:ops !authenticate' >/etc/sudoers.d/ops",
        r"sudo refuses: the account is not in the sudoers file\. Next: ",
    ),
    "gpu04": ("rm /usr/bin/sudo", r"sudo is not installed\. Next: "),
    "gpu05": ("chage -E 0 ops", r"the account has expired\. Next: "),
    "gpu06": ("chage -d 0 ops", r"the password of the account has expired, .*\. Next: "),
    "gpu07": (
        "usermod -s /usr/sbin/nologin ops",
        r"the login shell of the account lets nobody in \(nologin\)\. Next: ",
    ),
    "gpu08": ("usermod -s /bin/none ops", r"sshd refuses the login of ops .*\. Next: .* shell"),
    "gpu09": (
        "echo 'System is booting up. See pam_nologin(8).' >/run/nologin",
        r"logins are not allowed while the node boots or shuts down .*\. Next: ",
    ),
    "gpu10": (
        "mkdir -p /etc/motd.d; mount -t tmpfs -o size=4k full /etc/motd.d; "
        "head -c 4096 /dev/zero >/etc/motd.d/x",
        r"a file system is full\. Next: free space on the node: df -h",
    ),
    "gpu11": (
        "mkdir -p /etc/motd.d; mount -t tmpfs -o ro full /etc/motd.d",
        r"a file system is mounted read-only\. Next: find out why",
    ),
    "gpu12": ("exec sleep infinity", r"it refuses connections to port 22\. Next: start sshd"),
}
ON_WRITING = {"gpu10", "gpu11"}
"""Faults that a check cannot see, because it writes nothing."""
BOUND_S = 150
"""A hanging node is given up after 75 s; meanwhile the others wait, and then do their part."""
INVENTORY = f"""\
from lockstep.fast import limits as _limits
from lockstep.inventory import plan_or_exit
from lockstep.plan.declaration import Declaration as _Declaration, File as _File

_limits.SCALE = 1 / 150  # four seconds for an operation, 24 for packages

_NOTICE = _Declaration(
    name="notice",
    title="Notice",
    when=lambda plan: True,
    files=(_File(path="/etc/motd.d/50-site", text=lambda plan: "Jobs only.\\n"),),
    example={{}},
)
_cluster = plan_or_exit(
    {{
        "name": "forty",
        "networks": {{"management": {{"prefix": "{PREFIX}/64"}}}},
        "hardware": {{
            "any": {{"sockets": 1, "cores_per_socket": 16, "memory_mib": 64000}},
        }},
        "access": {{"user": "ops", "key": "FOLDER/login", "known_hosts": "FOLDER/known_hosts"}},
        "nodes": [
            {{
                "name": "head",
                "role": "head",
                "hardware": "any",
                "management": "{PREFIX}1000",
                "runs": ["slurm_accounting", "slurm_controller", "prometheus"],
            }},
            {{
                "name": "gpu[01-LAST]",
                "role": "worker",
                "hardware": "any",
                "management": "{PREFIX}1001",
            }},
        ],
        "os": {{"release": "debian_13"}},
        "scheduler": {{"kind": "slurm"}},
        "records_dir": "FOLDER/records",
        "secrets_dir": "FOLDER/secrets",
    }},
    __file__,
    roles=[_NOTICE],
)
head = _cluster.group("head")
worker = _cluster.group("worker")
"""
DEPLOY = """\
from pyinfra import host
from lockstep.fast import limits
from lockstep.roles.operations.apply import apply_roles
from lockstep.roles.operations.operation import operation
from lockstep.roles.steps.barrier import reached

@operation(limit_s=limits.LONG_S)
def packages():
    yield "sleep 8"  # twenty minutes, on the scale of the limits

@operation()
def last():
    yield "touch /run/done"

apply_roles(host.data.plan, ("notice",))
packages(name="Packages")
reached(name="Every node")
last(name="Last")
"""


def started(folder: Path, workers: int, faults: dict[str, str]) -> PlainNodes:
    """Start a head and some workers, with a description and a deploy."""
    names = ("head", *(f"gpu{number:02}" for number in range(1, workers + 1)))
    addresses = {name: f"{PREFIX}{0x1000 + number:x}" for number, name in enumerate(names)}
    text = INVENTORY.replace("FOLDER", str(folder)).replace("LAST", f"{workers:02}")
    (folder / "inventory.py").write_text(text)
    (folder / "deploy.py").write_text(DEPLOY)
    return PlainNodes(folder, addresses, faults)


def begin(nodes: PlainNodes, *words: str) -> subprocess.Popen[str]:
    """Start a command in the network of the nodes."""
    return subprocess.Popen(
        nodes.inside(str(PYTHON), "-m", *words),
        cwd=nodes.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "1000"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@dataclass(frozen=True)
class Ran:
    """What a command said."""

    said: str
    status: int
    took_s: float
    pid: int


CHECK = ("lockstep", "check", "inventory.py", "--rule", "node.reachable", "--all")
DEPLOYS = ("pyinfra", "-y", "inventory.py", "deploy.py")


def finish(begun: subprocess.Popen[str], began: float) -> Ran:
    """Wait until a command is over."""
    try:
        said = begun.communicate(timeout=BOUND_S)[0]
    finally:
        begun.kill()
    return Ran(said, begun.returncode, time.monotonic() - began, begun.pid)


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainNodes]:
    folder = tmp_path_factory.mktemp("forty")
    found = started(folder, 39, FAULTS)
    try:
        make_key(folder / "other")
        start = f"{found.addresses[CHANGED]} "
        other = start + (folder / "other.pub").read_text().strip()
        lines = found.known_hosts.read_text().splitlines()
        lines = [other if line.startswith(start) else line for line in lines]
        found.known_hosts.write_text("\n".join(lines) + "\n")
        yield found
    finally:
        found.end()


@pytest.fixture(scope="module")
def ran(forty: PlainNodes) -> dict[str, Ran]:
    """A deploy, and meanwhile a check and a second deploy."""
    began = time.monotonic()
    first = begin(forty, *DEPLOYS)
    lock = forty.folder / "records" / "lock"
    while not (lock.exists() and lock.read_text()) and first.poll() is None:
        time.sleep(0.2)
    begun = {
        "first": first,
        "second": begin(forty, *DEPLOYS),
        "check": begin(forty, *CHECK),
    }
    return {name: finish(begun[name], began) for name in ("second", "check", "first")}


def test_the_deploy_finishes_on_the_others_and_names_the_four(
    forty: PlainNodes, ran: dict[str, Ran]
) -> None:
    """Packages that take twenty minutes, on the scale of the limits, are not given up."""
    deploy = ran["first"]
    print(deploy.said[-4000:], f"{deploy.took_s:.0f} s")
    assert deploy.status == 1
    assert deploy.took_s < BOUND_S
    assert "Traceback" not in deploy.said
    listing = deploy.said.partition("--> 4 nodes failed:\n")[2]
    for name, pattern in SAID.items():
        assert re.search(rf"^    {name}: .*{pattern}", listing, re.MULTILINE), listing
    done = {name for name in forty.addresses if forty.has(name, "/run/done")}
    assert done == {*forty.addresses} - {*FAULTS}
    assert all(forty.has(name, "/etc/motd.d/50-site") for name in done)


def test_a_second_run_says_who_holds_the_lock(ran: dict[str, Ran]) -> None:
    first, second = ran["first"], ran["second"]
    assert second.status == 1
    assert "another run is changing this cluster; nothing was changed" in second.said
    assert re.search(rf"^  by +\S+ on \S+, process {first.pid}$", second.said, re.MULTILINE)
    assert re.search(rf"^  next .*kill -INT {first.pid}$", second.said, re.MULTILINE)


def test_the_check_says_the_same_of_the_four(ran: dict[str, Ran]) -> None:
    said = ran["check"].said
    print(said, f"{ran['check'].took_s:.0f} s")
    assert "read 36 of 40 nodes" in said
    for name, pattern in SAID.items():
        assert finds(said, name, pattern), said


def finds(said: str, node: str, pattern: str) -> bool:
    """Return whether a check has a finding and its repair in place of what a run says."""
    what, then = pattern.split(r"\. Next: ") if r"\. Next: " in pattern else pattern.split("Next: ")
    finding = rf"node.reachable  {node}\n.*\n  found +{what}(.*\n){{1,4}}  repair +{then}"
    return re.search(finding, said) is not None


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainNodes]:
    faults = {name: fault for name, (fault, _) in MORE.items()}
    found = started(tmp_path_factory.mktemp("others"), len(MORE), faults)
    try:
        yield found
    finally:
        found.end()


def test_real_faults_have_messages_of_their_own(others: PlainNodes) -> None:
    """As this release of sudo, sshd, PAM and the kernel say them."""
    began = time.monotonic()
    deploy, check = begin(others, *DEPLOYS), begin(others, *CHECK)
    deployed, checked = finish(deploy, began), finish(check, began)
    print(deployed.said[-8000:], checked.said, f"{deployed.took_s:.0f} s")
    listing = deployed.said.partition(f"--> {len(MORE)} nodes failed:\n")[2]
    for name, (_, pattern) in MORE.items():
        assert re.search(rf"^    {name}: .*{pattern}", listing, re.MULTILINE), listing
        if name not in ON_WRITING:
            assert finds(checked.said, name, pattern), checked.said
    assert others.has("head", "/run/done")
