"""Nine incidents in which one node slowed a whole cluster, and the report of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from lockstep.when import HOUR_S
from tests.checks.recorded import REMOVED
from tests.commands.conftest import Cluster, ended

NODE = "worker3"
Change = tuple[str, tuple[str, ...], Any]


@dataclass(frozen=True)
class Incident:
    """What an hour ago was right, and the lines that have to name it now."""

    id: str
    changes: tuple[Change, ...]
    rule: str
    device: str
    found: str
    expected: str
    repair: str


WITHOUT_ADAPTIVE_ROUTING = {
    "adaptive_routing_forced_en": 0,
    "roce_adp_retrans_en": 1,
    "roce_tx_window_en": 1,
    "roce_slow_restart_en": 1,
    "selective_repeat_forced_en": 1,
}
DEPLOY = f"pyinfra -y inventory.py deploys/worker.py --limit {NODE}"

INCIDENTS = (
    Incident(
        "one GPU limited to 350 W",
        tuple((f"gpu.power.{name}_w", ("gpu3",), 350.0) for name in ("enforced", "requested")),
        "gpu.power_limit",
        "gpu3",
        "350 W",
        "700 W   (from: device)",
        DEPLOY,
    ),
    Incident(
        "one GPU slowed down for heat",
        (("gpu.slowdown.thermal_sw_us", ("gpu5",), 90_000_000),),
        "gpu.thermal_sw",
        "gpu5",
        "90 s: 90 s more in 1 h",
        "0 s, no more   (from: earlier record, 2026-11-20 18:40 UTC)",
        "check the fans, filters, cold plate and air inlet",
    ),
    Incident(
        "huge pages uneven",
        (("hugepages", ("2M", "1"), 256),),
        "hugepages",
        "2M node1",
        "256",
        "512",
        DEPLOY,
    ),
    Incident(
        "a CPU set missing",
        (("cpuset.user_slice", (), "0-15"),),
        "cpuset.housekeeping",
        "logins",
        "CPUs 0-15",
        "CPUs 0,8",
        DEPLOY,
    ),
    Incident(
        "a container with seven of eight GPUs",
        (("containers", ("docker", "devices", "/dev/nvidia7"), REMOVED),),
        "container.devices",
        "docker",
        "lacks /dev/nvidia7",
        "/dev/nvidia6, /dev/nvidia7   (from: spec)",
        f"on {NODE}: start a container by hand",
    ),
    Incident(
        "an exporter that asks every second",
        (("collectors", ("dcgm-exporter",), ["/usr/bin/dcgm-exporter -c 1000"]),),
        "collector.settings",
        "dcgm-exporter",
        "-c 1000",
        "-c 30000",
        f"on {NODE}: compare the unit of dcgm-exporter (systemctl cat)",
    ),
    Incident(
        "adaptive routing off",
        (("rdma.acceleration", ("mlx5_0",), WITHOUT_ADAPTIVE_ROUTING),),
        "rdma.adaptive_routing",
        "mlx5_0",
        "off",
        "on   (from: peers",
        f"on {NODE}, at each boot: run mlxreg (or mstreg) -d PCI_ADDRESS --reg_name "
        "ROCE_ACCL --set adaptive_routing_forced_en=1 (0 for off) to set adaptive routing of "
        "mlx5_0 to on",
    ),
    Incident(
        "a clock beside the others",
        (("time.offset_s", (), 0.25),),
        "time.offset",
        "",
        "250 ms",
        "at most",
        f"on {NODE}: check chronyc sources",
    ),
    Incident(
        "a listener on IPv4 only",
        (("listeners", ("tcp/9100",), ["0.0.0.0"]),),
        "listener.family",
        "tcp/9100",
        "0.0.0.0",
        ":: or fd00:1::103   (from: spec)",
        DEPLOY,
    ),
)


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda incident: incident.id)
def test_the_screen_alone_says_what_where_since_when_and_what_next(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], incident: Incident
) -> None:
    assert ended("check", "inventory.py") == 0
    cluster.now += 1 * HOUR_S
    for reading, path, value in incident.changes:
        cluster.change(NODE, reading, path, value)
    capsys.readouterr()
    assert ended("check", "inventory.py") == 1
    out = capsys.readouterr().out
    first, *_, last = out.splitlines()
    assert first.split(maxsplit=1)[1] == f"{incident.rule}  {NODE} {incident.device}".rstrip()
    assert ": 1 differing." in last, "one finding, and no consequence of it"
    fields = dict(line.split(maxsplit=1) for line in out.splitlines() if line.startswith("  "))
    assert incident.found in fields["found"]
    assert incident.expected in fields["expected"]
    assert fields["since"] == "2026-11-20 19:40 UTC (1 check)"
    assert fields["repair"].startswith(incident.repair)
