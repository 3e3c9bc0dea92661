"""The node check on workers: as Slurm's health check, before a job, and for metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.labs import NODE_CHECK, Lab
from tests.lab.test_cluster import undo_hardware, wait_until_idle

pytestmark = [pytest.mark.lab, pytest.mark.slow]

REASON = "lockstep: gpu.power_limit gpu3: found 350 W, expected 700 W"
SERVED = (
    "address=$(ss -Hltn 'sport = 9100' | awk '{print $4}') && "
    "python3 -c 'import sys, urllib.request; "
    "print(urllib.request.urlopen(sys.argv[1]).read().decode())' http://$address/metrics"
)
JOB = "cd /tmp && sbatch --parsable --wrap='uname -n > /tmp/ran; sleep 2'"


@pytest.fixture
def healthy(cluster: Lab) -> Iterator[Lab]:
    """The cluster, whole before a test and after it."""
    wait_until_idle(cluster)
    yield cluster
    undo_hardware(cluster)
    for node in ("worker1", "worker2"):
        cluster.on("head", f"scontrol update NodeName={node} State=RESUME", check=False)
    wait_until_idle(cluster)


def capped(lab: Lab, node: str) -> None:
    lab.lab("gpu", node, "--gpu", "3", "--set", "enforced.power.limit=350")


def shown(lab: Lab, node: str) -> str:
    return lab.on("head", f"scontrol -o show node {node}")


def log(lab: Lab, node: str) -> str:
    return lab.on(node, "journalctl -q -t lockstep-node-check --no-pager -n 100 -o cat")


def test_a_capped_gpu_takes_the_node_out_and_its_repair_brings_it_back(healthy: Lab) -> None:
    capped(healthy, "worker1")
    healthy.node_check("worker1")
    assert "State=IDLE+DRAIN" in shown(healthy, "worker1")
    assert f"Reason={REASON} [root@" in shown(healthy, "worker1")
    assert healthy.on("head", "srun uname -n").strip() == "worker2"
    checked = healthy.check()
    assert checked.named == {("gpu.power_limit", "worker1", "gpu3")}, checked.text
    undo_hardware(healthy)
    healthy.node_check("worker1")
    wait_until_idle(healthy)
    assert "Reason=" not in shown(healthy, "worker1")


def test_slurm_itself_runs_the_health_check(healthy: Lab) -> None:
    """slurmd runs it when it starts, before it registers."""
    capped(healthy, "worker1")
    healthy.on("worker1", "systemctl restart slurmd.service")
    healthy.on(
        "head",
        "for i in $(seq 60); do scontrol -o show node worker1 | grep -q 'Reason=lockstep: gpu' "
        "&& exit 0; sleep 1; done; exit 1",
    )


def test_what_a_person_took_out_stays_out_with_the_persons_reason(healthy: Lab) -> None:
    healthy.on("head", "scontrol update NodeName=worker1 State=DRAIN Reason='a person'")
    healthy.node_check("worker1")
    assert "Reason=a person" in shown(healthy, "worker1")
    capped(healthy, "worker1")
    healthy.node_check("worker1")
    assert "Reason=a person" in shown(healthy, "worker1")
    undo_hardware(healthy)
    healthy.node_check("worker1")
    assert "State=IDLE+DRAIN" in shown(healthy, "worker1")


@pytest.mark.parametrize("mode", ["health", "prolog", "epilog"])
def test_an_nvidia_smi_that_hangs_changes_nothing_and_is_logged(healthy: Lab, mode: str) -> None:
    smi = "/usr/bin/nvidia-smi"
    hang = f"mv {smi} /run/smi && printf '#!/bin/sh\\nsleep 300\\n' > {smi} && chmod +x {smi}"
    healthy.on("worker1", hang)
    try:
        healthy.node_check("worker1", mode)
        assert healthy.on("worker1", f"{NODE_CHECK} status").strip() == "unread"
    finally:
        healthy.on("worker1", f"mv /run/smi {smi}")
    unread = f"{mode}: gpu.count: not read: nvidia-smi: did not finish within"
    logged = log(healthy, "worker1")
    assert any(line.startswith(unread) for line in logged.splitlines()), logged
    assert "State=IDLE " in shown(healthy, "worker1")


@pytest.mark.parametrize(
    "harm",
    ["mv /etc/lockstep/node-check.json /run/kept", "mv /usr/local/lib/lockstep /run/kept"],
)
def test_a_program_that_cannot_run_changes_nothing(healthy: Lab, harm: str) -> None:
    capped(healthy, "worker1")
    healthy.on("worker1", harm)
    try:
        for mode in ("health", "prolog", "epilog"):
            healthy.on("worker1", f"{NODE_CHECK} {mode}")
    finally:
        _, there, kept = harm.split()
        healthy.on("worker1", f"mv {kept} {there}")
    assert "State=IDLE " in shown(healthy, "worker1")


def test_a_broken_node_refuses_a_job_which_runs_elsewhere(healthy: Lab) -> None:
    capped(healthy, "worker1")
    job = healthy.on("head", JOB).strip()
    healthy.on(
        "head",
        f"for i in $(seq 100); do squeue -h -j {job} | grep -q . || exit 0; "
        # Slurm waits two minutes before it starts a requeued job.
        f"scontrol update JobId={job} StartTime=now 2>/dev/null; sleep 2; done; squeue; exit 1",
    )
    ran = healthy.on("head", f"sacct -D -n -X -P -j {job} -o state,nodelist").splitlines()
    assert ran == ["REQUEUED|worker1", "COMPLETED|worker2"]
    assert healthy.on("worker2", "cat /tmp/ran").strip() == "worker2"
    assert f"Reason={REASON}" in shown(healthy, "worker1")
    undo_hardware(healthy)
    healthy.node_check("worker1")
    wait_until_idle(healthy)


def test_what_breaks_during_a_job_takes_the_node_out_at_its_end(healthy: Lab) -> None:
    healthy.on("head", "cd /tmp && sbatch -w worker1 --wrap='sleep 6'")
    healthy.on(
        "head", "for i in $(seq 30); do squeue -h -t R | grep -q . && exit 0; sleep 1; done; exit 1"
    )
    capped(healthy, "worker1")
    healthy.on(
        "head",
        "for i in $(seq 60); do scontrol -o show node worker1 | grep -q 'Reason=lockstep: gpu' "
        "&& exit 0; sleep 1; done; exit 1",
    )


def test_the_node_exporter_serves_what_the_timer_wrote(healthy: Lab) -> None:
    capped(healthy, "worker1")
    healthy.on("worker1", "systemctl start lockstep-node-check.service")
    served = healthy.on("worker1", SERVED)
    assert 'lockstep_node_check_failed{rule="gpu.power_limit"} 1' in served.splitlines()
    assert 'lockstep_node_check_failed{rule="gpu.count"} 0' in served.splitlines()
    assert "lockstep_node_check_time_seconds" in served
    assert "State=IDLE " in shown(healthy, "worker1"), "metrics take nothing out"
    timer = healthy.on(
        "worker1", "systemctl show lockstep-node-check.timer -p NextElapseUSecRealtime"
    )
    assert timer.strip().endswith(("0:00 UTC", "5:00 UTC")), timer
