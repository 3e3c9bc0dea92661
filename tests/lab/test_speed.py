"""The speed suite's control host: its simulated delay and its own network link."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.speed import sessions
from benchmarks.speed.names import named
from benchmarks.speed.network import Control, control
from benchmarks.speed.paths import WORKERS, program
from benchmarks.speed.series import PYINFRA_IDLE
from lab.state import LabState, load
from tests.lab.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def connected_s(lab: LabState, here: Control) -> float:
    """Return how long a TCP handshake with a worker's sshd takes, of five the shortest."""
    program = (
        "import socket, sys, time\n"
        "def once():\n"
        "    began = time.monotonic()\n"
        "    socket.create_connection((sys.argv[1], 22), 10).close()\n"
        "    return time.monotonic() - began\n"
        "print(min(once() for _ in range(5)))"
    )
    words = [*here.prefix, "python3", "-c", program, lab.node("worker1").address]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_a_handshake_takes_the_round_trip_that_was_added(cluster: Lab) -> None:
    lab = load(cluster.name)
    with control(lab, 0) as here:
        assert connected_s(lab, here) < 0.1
    with control(lab, 200) as here:
        before = here.bytes()
        assert 0.2 <= connected_s(lab, here) < 0.4
        assert here.bytes() - before > 5 * 3 * 60


def test_machines_answer_under_many_names_as_long_as_it_is_asked_for(
    cluster: Lab,
) -> None:
    lab = load(cluster.name)
    with TemporaryDirectory() as folder, named(lab, 3, Path(folder)) as names:
        assert names.machines == {"name1": "worker1", "name2": "worker2", "name3": "worker1"}
        for name, machine in names.machines.items():
            words = ["ssh", "-F", names.ssh_config, name, "hostname"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            assert done.stdout == f"{machine}\n", done.stderr
        read = cluster.command(program("lockstep"), "check", names.read, check=False)
        # Names are not what the machines call themselves: the check says so, of each.
        assert read.returncode == 1
        assert "read 4 of 4 nodes" in read.stdout + read.stderr
        rerun = cluster.command(program("pyinfra"), "-y", names.found_as_they_are, WORKERS)
        assert re.search(PYINFRA_IDLE, rerun.stdout + rerun.stderr)
        assert set(re.findall(r"\[(\w+)\] +Connected", rerun.stderr)) == set(names.machines)
    assert "::1001" not in cluster.on("worker1", "ip -6 address show dev mgmt0")


def test_each_session_of_a_node_is_counted(cluster: Lab) -> None:
    lab = load(cluster.name)
    sessions.note(lab, ["worker1"])
    before = sessions.counted(lab, ["worker1"])
    for _ in range(3):
        subprocess.run(["ssh", "-F", lab.ssh_config, "worker1", "true"], check=True)
    # sshd's words reach the journal a little later.
    time.sleep(0.5)
    assert sessions.counted(lab, ["worker1"]) - before == 3 + 1
