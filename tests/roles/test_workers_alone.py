"""Workers that are deployed before their heads: they say so, and go on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from lockstep.plan import ClusterPlan, NodePlan
from lockstep.roles.operations import time_sync, workers_alone
from lockstep.roles.operations.slurm_worker import configuration_fetched, registered
from lockstep.roles.operations.time_sync import clock_is_right
from tests.plan.example import planned
from tests.roles.local import Done, machine, run

UNSYNCHRONISED = "00000000,,0,0,0,0,0,0,0,0,1,1,0,Not synchronised"


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodePlan:
    """A worker on which no program of Slurm works yet, and chronyd has no server."""
    doubles = {
        "scontrol": "echo 'Could not establish a configuration source' >&2; exit 1",
        "chronyc": (
            f"echo $* >> {tmp_path}/called; case $* in "
            f"*tracking*) echo {UNSYNCHRONISED};; *sources*) echo '^,?,fd00:1::1,0,7,0,4,0,0,0';; "
            "*waitsync*) exit 1;; esac"
        ),
        "systemctl": "exit 1",
        "systemd-run": f"echo systemd-run $* >> {tmp_path}/called",
        "sleep": "exit 0",
    }
    for name, script in doubles.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return planned().nodes["worker1"]


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A port of this machine that is the controller's; it answers once it listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        monkeypatch.setattr(workers_alone, "SLURMCTLD_PORT", listener.getsockname()[1])
        monkeypatch.setattr(
            ClusterPlan,
            "running",
            lambda self, service: SimpleNamespace(name="head1", address="127.0.0.1"),
        )
        yield listener


def gate(plan: NodePlan) -> Done:
    return run(clock_is_right, plan=plan, reference=False, max_offset_s=0.1)


def test_without_a_controller_slurmd_is_not_waited_for(
    worker: NodePlan, controller: socket.socket
) -> None:
    assert run(registered, plan=worker) == Done(True, 0, ""), "it changes nothing"
    assert run(configuration_fetched, plan=worker, sha256="0" * 64) == Done(True, 0, "")


def test_a_controller_that_listens_is_waited_for(
    worker: NodePlan, controller: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.listen()
    monkeypatch.setattr("lockstep.roles.operations.slurm_worker.WAIT_S", 0)
    assert not run(registered, plan=worker).succeeded
    assert not run(configuration_fetched, plan=worker, sha256="0" * 64).succeeded


def test_a_run_with_the_heads_waits_for_the_controller(
    worker: NodePlan, controller: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockstep.roles.operations.slurm_worker.WAIT_S", 0)
    made = machine
    monkeypatch.setattr("tests.roles.local.machine", lambda: noted(made()))
    assert not run(registered, plan=worker).succeeded
    assert not gate(worker).succeeded


def noted(state: object) -> object:
    workers_alone.deploys_heads(state)  # type: ignore[arg-type]  # a double's name is enough
    return state


def test_without_heads_the_clock_is_not_waited_for_and_chronyd_keeps_asking(
    worker: NodePlan, controller: socket.socket, tmp_path: Path
) -> None:
    assert gate(worker).succeeded
    called = (tmp_path / "called").read_text()
    assert "waitsync 90" not in called
    assert f"systemd-run --quiet --collect --unit={time_sync.UNTIL_HEARD}" in called


def test_a_second_run_without_heads_changes_nothing(
    worker: NodePlan, controller: socket.socket, tmp_path: Path
) -> None:
    assert gate(worker).commands == 1
    (tmp_path / "systemctl").write_text("#!/bin/sh\n")  # chronyd is asking by now
    assert gate(worker) == Done(True, 0, "")


def test_a_cluster_without_a_controller_keeps_the_gate_closed(
    worker: NodePlan, controller: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ClusterPlan, "running", lambda self, service: None)
    assert not gate(worker).succeeded


def test_a_head_with_a_controller_keeps_the_gate_closed(
    worker: NodePlan, controller: socket.socket
) -> None:
    controller.listen()
    assert not gate(worker).succeeded


def test_a_time_server_that_answers_keeps_the_gate_closed(
    worker: NodePlan, controller: socket.socket, tmp_path: Path
) -> None:
    double = (tmp_path / "chronyc").read_text()
    (tmp_path / "chronyc").write_text(double.replace(",7,0,4", ",7,1,4"))
    assert not gate(worker).succeeded
