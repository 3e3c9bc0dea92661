"""NVIDIA's stack on the lab's workers: real apt, real packages and containers, stand-in boards."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.lab.labs import INVENTORY, ROOT, Lab

pytestmark = pytest.mark.lab

WORKERS = ("worker1", "worker2")
DRIVER = "550.163.01"
NEXT = "550.163.02"
BROKEN = "550.163.03"
DEVICES = "ls /dev | grep -E '^nvidia[0-9]+$' | sort -V | paste -sd, "


def changed(folder: Path, *replacements: tuple[str, str]) -> str:
    """Write an inventory of the lab that differs in some places; return its path."""
    text = (ROOT / INVENTORY).read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / "changed.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def ssh(lab: Lab, node: str, command: str) -> str:
    """Run a command as a user does: what a shell of the console may do is not what a user may."""
    return lab.lab("ssh", node, "--", command).stdout.strip()


@pytest.mark.parametrize("node", WORKERS)
def test_a_worker_has_the_whole_set_at_one_version(cluster: Lab, node: str) -> None:
    query = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | sort -u"
    assert ssh(cluster, node, query) == DRIVER
    held = set(cluster.on(node, "apt-mark showhold").split())
    plan = json.loads(
        cluster.command(str(ROOT / ".venv/bin/lockstep"), "plan", INVENTORY, node, "--json").stdout
    )
    stack = {name for name in plan["packages"] if "nvidia" in name or "datacenter-gpu" in name}
    assert stack <= held
    assert ssh(cluster, node, "ldconfig -p | grep -c libcudart.so.12") == "1"
    metrics = cluster.on("head", f"wget -qO- http://{node}:9400/metrics || true")
    if metrics:  # wget is not part of the image
        assert "DCGM_FI_DEV_POWER_USAGE" in metrics


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_sees_the_boards_it_was_given_and_no_other(cluster: Lab, engine: str) -> None:
    run = f"sudo {engine} run --rm --network none"
    image = "localhost/lockstep-check:1 /bin/busybox sh -c"
    look = '"cd /dev; for d in nvidia[0-9]*; do echo $d; done"'
    listed = ssh(
        cluster,
        "worker1",
        f"{run} --device nvidia.com/gpu=2 --device nvidia.com/gpu=5 {image} '{look[1:-1]}'",
    )
    assert sorted(listed.split()) == ["nvidia2", "nvidia5"]
    everything = ssh(
        cluster, "worker1", f"{run} --device nvidia.com/gpu=all {image} '{look[1:-1]}'"
    )
    assert sorted(everything.split()) == [f"nvidia{n}" for n in range(8)]
    none = ssh(cluster, "worker1", f"{run} {image} '{look[1:-1]}'")
    assert none == "nvidia[0-9]*"


def test_an_upgrade_by_hand_leaves_the_set_alone(cluster: Lab) -> None:
    said = cluster.on("worker1", "apt-get -q update >/dev/null; apt-get -q -y -s dist-upgrade")
    assert not re.search(r"^Inst (nvidia|libnvidia|libcuda|datacenter)", said, re.MULTILINE), said
