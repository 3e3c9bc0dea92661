"""``lockstep check --through slurm``: the same report with a step of real Slurm."""

from __future__ import annotations

import pytest

from tests.lab.labs import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]
RUNS = "for i in $(seq 30); do squeue -h -t R -j {job} | grep -q . && exit; sleep 1; done; exit 1"


def test_idle_workers_are_read_by_one_step_and_drift_is_named(cluster: Lab) -> None:
    with cluster.drifted("worker1"):
        checked = cluster.check("--through", "slurm")
    assert {(rule, node) for rule, node, _ in checked.named} == {("sysctl.running", "worker1")}
    assert "read directly" not in checked.text


def test_fingerprints_are_taken_in_the_step(cluster: Lab) -> None:
    cluster.names_a_file_by_hand("worker1", "--through", "slurm")


def test_a_job_of_root_is_read_from_inside(cluster: Lab) -> None:
    job = cluster.on("head", "sbatch --parsable --nodes=2 --exclusive --wrap='sleep 600'").strip()
    try:
        cluster.on("head", RUNS.format(job=job))
        checked = cluster.check("--through", "slurm", "--job", job)
        assert "read directly" not in checked.text
        # Nothing is idle: who asks for no job reads them himself.
        assert "read directly: worker[1-2]" in cluster.check("--through", "slurm").text
    finally:
        cluster.on("head", f"scancel {job}")
    assert checked.named == set()
