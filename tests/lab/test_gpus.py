"""``lab gpu --branch`` and ``--load``, and the faults of GPUs on other driver branches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.nvml import smi
from tests.lab.labs import NODE_CHECK, Lab
from tests.lab.test_cluster import undo_hardware, wait_until_idle
from tests.nvml.test_check import FAULTS

pytestmark = pytest.mark.lab

NODE = "worker2"
STATE = "/var/lib/lockstep-standin/gpus.ini"
BRANCHES = ("470", "535", "555")


@pytest.fixture
def node(cluster: Lab, tmp_path: Path) -> Iterator[Lab]:
    """The cluster; afterwards the worker has its own GPUs and driver again."""
    wait_until_idle(cluster)
    before = tmp_path / "before.ini"
    before.write_text(cluster.on(NODE, f"cat {STATE}"), encoding="utf-8")
    yield cluster
    cluster.lab("gpu", NODE, "--branch", "installed")
    cluster.lab("gpu", NODE, "--load", str(before))
    undo_hardware(cluster)
    cluster.node_check(NODE)
    wait_until_idle(cluster)


def of_slurm(lab: Lab) -> str:
    return lab.on("head", f"scontrol -o show node {NODE}")


@pytest.mark.parametrize(
    "branch", ["470", *(pytest.param(name, marks=pytest.mark.slow) for name in BRANCHES[1:])]
)
def test_a_worker_runs_the_program_of_another_branch(node: Lab, branch: str) -> None:
    query = "nvidia-smi --query-gpu=driver_version --format=csv,noheader | uniq -c"
    files = "md5sum /usr/lib/lockstep-standin/*[^_]; find /usr/lib -path '*/nvidia/current*' | sort"
    installed, before = node.on(NODE, query), node.on(NODE, files)
    node.lab("gpu", NODE, "--branch", branch)
    version = smi.BRANCHES[branch].version
    assert node.on(NODE, query).split() == ["8", version]
    assert version in node.on(NODE, "cat /proc/driver/nvidia/version")
    node.lab("gpu", NODE, "--branch", "installed")
    assert node.on(NODE, query) == installed
    assert node.on(NODE, files) == before, "the node equals the others again"


def test_recorded_gpus_are_loaded_and_a_malformed_file_is_refused(
    node: Lab, tmp_path: Path
) -> None:
    recorded = node.on(NODE, "nvidia-smi -q -x")
    old, new = "<current_link_width>16x", "<current_link_width>8x"
    assert recorded.count(old) == 8
    changed = tmp_path / "recorded.xml"
    changed.write_text(recorded.replace(old, new), encoding="utf-8")
    node.lab("gpu", NODE, "--load", str(changed))
    assert node.on(NODE, "nvidia-smi -q -x").count(new) == 8

    changed.write_text(recorded[: len(recorded) // 2], encoding="utf-8")
    refused = node.lab("gpu", NODE, "--load", str(changed), check=False)
    assert refused.returncode != 0
    assert str(changed) in refused.stderr
    assert node.on(NODE, "nvidia-smi -q -x").count(new) == 8, "nothing was changed"


OTHER_DRIVER = "driver.library_version"
"""Another driver than the planned one drains the node by itself."""


@pytest.mark.slow
@pytest.mark.parametrize("branch", ["535", "installed"])  # each takes minutes
def test_faults_drain_the_node_on_every_branch(node: Lab, branch: str) -> None:
    # The nvidia-smi of older branches fails on the links of an H200, which they do not support.
    node.lab("gpu", NODE, "--branch", branch)
    node.lab("gpu", NODE, "--reset")  # GPUs wait for a fabric manager of their driver's branch
    usual = set() if branch == "installed" else {OTHER_DRIVER}
    assert failed_rules(node) == usual
    for setting, rule, _, drains in FAULTS:
        node.lab("gpu", NODE, "--gpu", "3", "--set", setting)
        failed = failed_rules(node) - usual
        assert (rule in failed) is drains, f"{setting}: {failed}"
        seen = of_slurm(node)
        assert ("State=IDLE+DRAIN" in seen) is bool(failed | usual), f"{setting}: {seen}"
        assert ("Reason=lockstep: " in seen) is bool(failed | usual), f"{setting}: {seen}"
        node.lab("gpu", NODE, "--reset")
        assert failed_rules(node) == usual, f"{setting} is over"


def failed_rules(lab: Lab) -> set[str]:
    """Let the node check itself, and return the rules that fail."""
    begin = lab.on(NODE, "sleep 1; date +%s").strip()
    lab.node_check(NODE)
    shown = f"journalctl -q -t lockstep-node-check -o cat --since @{begin}"
    log = lab.on(NODE, f"journalctl --sync; {shown}")  # journald may still be reading
    return set(re.findall(r"^health: ([a-z_.]+)[^\n]*?: found ", log, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.parametrize("branch", ["470", "installed"])
@pytest.mark.parametrize("form", ["yes", "values", "unknown_error", "requires_reset"])
def test_a_prolog_refuses_a_node_with_a_lost_gpu(node: Lab, branch: str, form: str) -> None:
    node.lab("gpu", NODE, "--branch", branch)
    node.lab("gpu", NODE, "--gpu", "3", "--set", f"lost={form}")
    status = node.on(NODE, f"{NODE_CHECK} prolog >/dev/null; echo $?")
    assert status.strip() != "0"
    assert "State=IDLE+DRAIN" in of_slurm(node)
