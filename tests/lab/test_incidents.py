"""What made whole clusters slow, done to one node of the lab: each is the one finding.

Huge pages, CPU sets and listeners: kernel_drifts.py. Adaptive routing needs an adapter, clocks that
differ need more than one: tests/probe reads them, tests/commands/test_incidents.py judges them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.drifts import DRIFTS, Drift
from tests.lab.labs import Lab
from tests.lab.test_cluster import seed, undo_hardware, wait_until_idle

pytestmark = [pytest.mark.lab, pytest.mark.slow]

KNOWN = {drift.id: drift for drift in DRIFTS}
EVERY_SECOND = """
d=/run/systemd/system/nvidia-dcgm-exporter.service.d
line=$(sed -n 's/^ExecStart=.*-c /&/p' /etc/systemd/system/nvidia-dcgm-exporter.service.d/*.conf)
mkdir -p $d
printf '[Service]\\nExecStart=\\n%s\\n' "${line% -c *} -c 1000" > $d/99-faster.conf
systemctl daemon-reload
systemctl restart nvidia-dcgm-exporter
"""
AS_DEPLOYED = """
rm -r /run/systemd/system/nvidia-dcgm-exporter.service.d
systemctl daemon-reload
systemctl restart nvidia-dcgm-exporter
"""


@pytest.fixture
def healthy(cluster: Lab) -> Iterator[Lab]:
    """The cluster before an incident; whole again after it."""
    wait_until_idle(cluster)
    assert cluster.check("--containers").named == set()
    yield cluster
    undo_hardware(cluster)
    assert cluster.deploy().status == 0
    assert cluster.check("--containers").named == set()


def test_one_gpu_of_sixteen_limited_to_350_watts(healthy: Lab) -> None:
    only(healthy, KNOWN["GPU limited to 350 W"])


def test_one_container_specification_with_seven_of_eight_gpus(healthy: Lab) -> None:
    only(healthy, KNOWN["containers get seven GPUs"])


def only(lab: Lab, drift: Drift) -> None:
    seed(lab, drift)
    checked = lab.check("--containers")
    assert checked.named == {drift.finding}, checked.text


def test_a_gpu_that_slows_down_for_heat_between_two_checks(healthy: Lab, tmp_path: Path) -> None:
    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    healthy.check("--save-records", before)
    time.sleep(61)  # records that are nearer tell nothing of a rate
    counter = "clocks_event_reasons_counters.sw_thermal_slowdown=90000000"
    healthy.lab("gpu", "worker2", "--gpu", "5", "--set", counter)
    healthy.check("--save-records", after)
    checked = healthy.check("--records", after, "--earlier", before)
    assert checked.named == {("gpu.thermal_sw", "worker2", "gpu5")}, checked.text
    assert checked.findings[0]["found"].startswith("90 s: 90 s more in ")


def test_an_exporter_that_asks_every_second(healthy: Lab) -> None:
    healthy.on("worker1", EVERY_SECOND)
    try:
        checked = healthy.check()
    finally:
        healthy.on("worker1", AS_DEPLOYED)
    # Two nodes: nobody can say which of them is right.
    assert checked.named == {("collector.settings", "worker[1-2]", "dcgm-exporter")}, checked.text
    assert "-c 1000 on worker1" in checked.findings[0]["found"]
