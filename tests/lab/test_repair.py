"""``lockstep repair``: drifts of three roles on three nodes; nothing else changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.lab.labs import INVENTORY, ROOT, Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]

DRIFTS = {
    # Node -> role, what happens to it, how pyinfra names the role.
    "head": ("prometheus", "systemctl stop prometheus", "Prometheus"),
    "worker1": ("os_settings", "sysctl -q -w net.core.somaxconn=128", "OS settings"),
    "worker2": ("time_sync", "echo '# mine' >> /etc/chrony/chrony.conf", "Time sync"),
}


def test_three_drifts_are_repaired_where_they_are_and_nothing_else_is_touched(
    cluster: Lab, tmp_path: Path
) -> None:
    assert cluster.check().named == set()
    for node, (_, script, _) in DRIFTS.items():
        cluster.on(node, script)
    seen = cluster.command(*repair("--dry-run"), check=False)
    assert seen.returncode == 1
    assert len(cluster.check().named) == len(DRIFTS), "a dry run repairs nothing"

    report = tmp_path / "repair.json"
    done = cluster.command(*repair("-y", "--json", str(report)))
    document = json.loads(report.read_text())
    assert [(deploy["nodes"], deploy["roles"]) for deploy in document["deploys"]] == [
        ([node], [role]) for node, (role, _, _) in DRIFTS.items()
    ]
    for deploy in document["deploys"]:
        assert " ".join(deploy["command"]) in seen.stdout.replace("pyinfra ", "pyinfra -y ")
    # What pyinfra itself says of each run: whom it reached, and the operations of which roles.
    runs = done.stderr.split("--> Loading config...")[1:]
    for said, (node, (_, _, title)) in zip(runs, DRIFTS.items(), strict=True):
        # The first head has the lock of the cluster.
        assert set(re.findall(r"\[(\w+)\] +Connected", said)) == {node, "head"}
        roles = set(re.findall(r"Starting operation: (?:\S+\.py \| )?(.+?) \|", said))
        assert roles == {title}
    assert document["left"] == []
    assert cluster.check().named == set()


def test_a_role_that_does_not_exist_runs_nothing(cluster: Lab) -> None:
    wrong = cluster.deploy("deploys/worker.py", "--data", "roles=mung")
    assert wrong.status != 0
    assert "unknown role 'mung'; did you mean munge?" in wrong.errors
    assert wrong.changed == []


def repair(*options: str) -> list[str]:
    return [str(ROOT / ".venv/bin/lockstep"), "repair", INVENTORY, *options]
