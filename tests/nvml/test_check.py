"""The check reads the real nvidia-smi over the simulated NVML library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.nvml import create, smi
from lockstep.checks import local
from lockstep.checks.catalogue import all_rules
from lockstep.checks.context import Context
from lockstep.node.check.judge import judge
from lockstep.node.readers import collect, commands, tree
from lockstep.node.readers.gpu_fields import EVERY
from lockstep.node.readers.reading import NOT_AVAILABLE
from lockstep.report import Finding
from tests.checks import recorded
from tests.nvml.programs import CACHE, SimulatedNode
from tests.recordings.fleet import now_with

GPUS = 8
TRAYS = ("gb200", "gb300")
"""Models with four GPUs on a node, two on a module."""
ASKED = frozenset(name for _, names in collect.OF_NVIDIA_SMI for name in names) - collect.OF_ROLES
SICK = "worker3"
PAIRS = (
    *(("418", "v100"), ("450", "a100"), ("460", "a100_40gb"), ("470", "a10"), ("470", "t4")),
    *(("535", "h100"), ("535", "l40s"), ("550", "h200"), ("550", "t4"), ("555", "gb200")),
)
"""One pair or two of each branch; NVIDIA supports each of these models on its branch."""


class Fleet:
    """The recorded cluster with other GPUs, whose nvidia-smi is a real one."""

    def __init__(self, folder: Path, model: str, branch: str) -> None:
        self.folder, self.branch, self.model = folder, branch, model
        self.count = 4 if model in TRAYS else GPUS

        def described(description: dict[str, Any]) -> None:
            gpu = description["hardware"]["hgx-h200"]["gpu"]
            gpu |= {"model": model, "count": self.count}
            gpu.pop("numa", None)
            if model in TRAYS:
                description["hardware"]["hgx-h200"]["architecture"] = "arm64"
                description["hardware"]["hgx-h200"]["kernel"].pop("max_cstate")
            # The planned driver is not the subject, and some models need another one.
            nvidia = description["software"]["nvidia"]
            nvidia |= (
                {"driver": "580.95.05", "cuda": ["12.4"], "fabric_manager": "580.95.05"}
                if model == "v100"
                else {}
            )
            # Without links, a model is no board with NVSwitches.
            if "nvlink.0.speed" not in create.initial(model, 1, "x")["gpu 0"]:
                gpu["nvswitch"] = False
                description["software"]["nvidia"].pop("fabric_manager", None)

        self.context = recorded.clustered(described)

    def node(self, name: str) -> SimulatedNode:
        """Return a worker's programs and state."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        node = SimulatedNode(folder, self.model, self.count, self.branch)
        version = smi.BRANCHES[self.branch].version
        text, initial = create.texts(create.initial(self.model, self.count, name, version))
        node.state.write_text(text, encoding="utf-8")
        Path(f"{node.state}.initial").write_text(initial, encoding="utf-8")
        return node

    def read(self, node: SimulatedNode, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """Return the readings of nvidia-smi on a worker."""
        folder = node.state.parent
        (folder / "root/proc/driver/nvidia").mkdir(parents=True, exist_ok=True)
        version = smi.BRANCHES[self.branch].version
        (folder / "root/proc/driver/nvidia/version").write_text(
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Tue Apr  8\n"
        )
        (folder / "bin").mkdir(exist_ok=True)
        program = folder / "bin/nvidia-smi"
        settings = " ".join(f"{key}={value}" for key, value in node.environment.items())
        program.write_text(
            f'#!/bin/sh\nexport {settings}\nexec {smi.program(self.branch, CACHE)} "$@"\n'
        )
        program.chmod(0o755)
        monkeypatch.setattr(tree, "ROOT", str(folder / "root"))
        monkeypatch.setattr(commands, "PATH", str(folder / "bin"))
        readings: dict[str, Any] = collect.collect({}, only=ASKED)["readings"]
        return readings

    def with_readings(self, readings: dict[str, dict[str, Any]]) -> Context:
        """Return the cluster with the readings of some workers."""
        return now_with(self.context, readings)


def of_gpus(context: Context) -> Iterator[Finding]:
    """Yield the findings about GPUs, apart from readings that are not nvidia-smi's."""
    yield from (one for one in recorded.report(context) if one.field in ASKED)


def everywhere(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    workers = [name for name in fleet.context.plan.nodes if name.startswith("worker")]
    return {name: fleet.read(fleet.node(name), monkeypatch) for name in workers}


@pytest.mark.parametrize(("branch", "model"), PAIRS)
def test_healthy_gpus_have_no_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str, model: str
) -> None:
    healthy(tmp_path, monkeypatch, branch, model)


def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str, model: str) -> None:
    fleet = Fleet(tmp_path, model, branch)
    readings = everywhere(fleet, monkeypatch)
    found = of_gpus(fleet.with_readings(readings))
    assert [(one.rule, one.node, one.device, one.found) for one in found] == []
    # Without a finding, a reading that the driver does offer may still be missing.
    offered = fleet.node(SICK).smi("--help-query-gpu").stdout
    for name, field, _ in EVERY:
        if str(readings[SICK][name].get("unread", "")).startswith(NOT_AVAILABLE):
            assert f'"{field}"' not in offered
            assert f'"{field.replace("_event_", "_throttle_")}"' not in offered


FAULTS = (
    # setting of one GPU, rule, what it finds, whether the node drains
    ("lost=yes", "gpu.lost", "GPU is lost", True),
    ("lost=values", "gpu.lost", "GPU is lost", True),
    ("lost=unknown_error", "gpu.lost", "Unknown Error", True),
    ("lost=initialization_failed", "gpu.count", "7 GPUs", True),
    ("lost=requires_reset", "gpu.recovery_action", "Reset", True),
    ("enforced.power.limit=350", "gpu.power_limit", "350 W", True),
    ("ecc.errors.uncorrected.volatile.total=1", "gpu.ecc_uncorrected", "1 error", True),
    ("remapped_rows.pending=Yes", "gpu.row_remap", "row remap pending", True),
    ("remapped_rows.failure=Yes", "gpu.row_remap", "row remap failed", True),
    ("nvlink.3.speed=<inactive>", "gpu.nvlink", "1 x <inactive>", True),
    ("compute_mode=Prohibited", "gpu.compute_mode", "Prohibited", False),
)


@pytest.mark.parametrize("branch", ["470", "535", "550"])
@pytest.mark.parametrize(("setting", "rule", "found", "drains"), FAULTS)
def test_a_fault_is_named_with_its_node(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    branch: str,
    setting: str,
    rule: str,
    found: str,
    drains: bool,
) -> None:
    named(tmp_path, monkeypatch, branch, (setting, rule, found, drains))


def with_fault(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, setting: str, rule: str
) -> tuple[dict[str, Any], list[Finding]]:
    """Return the readings of a worker with one faulty GPU, and the findings of a rule there."""
    sick = fleet.node(SICK)
    sick.set("3", setting)
    seen = fleet.read(sick, monkeypatch)
    peer = fleet.read(fleet.node("worker1"), monkeypatch)
    workers = [name for name in fleet.context.plan.nodes if name.startswith("worker")]
    context = fleet.with_readings({**dict.fromkeys(workers, peer), SICK: seen})
    return seen, [one for one in of_gpus(context) if SICK in one.node and one.rule == rule]


def named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    branch: str,
    fault: tuple[str, str, str, bool],
    model: str = "a100",
) -> None:
    setting, rule, found, drains = fault
    fleet = Fleet(tmp_path, model, branch)
    seen, here = with_fault(fleet, monkeypatch, setting, rule)
    said = [one for one in here if found in one.found and one.status != "unknown"]
    assert said, here
    # A GPU that is lost has its address, or the place of its row, instead of its index.
    address = create.initial(model, GPUS, SICK)["gpu 3"]["pci.bus_id"].removeprefix("0000").lower()
    places = {""} if rule == "gpu.count" else {"gpu3", "row 4", address}
    assert {one.device for one in said} <= places
    judgements = local.judgements(fleet.context.plan.nodes[SICK])
    failed = {
        one.rule for one in judge(judgements, seen) if not one.unread and one.rule in GPU_RULES
    }
    assert (rule in failed) is drains


GPU_RULES = {rule.id for rule in all_rules() if rule.id.startswith("gpu.")}


@pytest.mark.parametrize(
    ("branch", "model"), [("418", "v100"), ("470", "a100"), ("535", "h100"), ("550", "b200")]
)
def test_what_a_driver_does_not_offer_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str, model: str
) -> None:
    fleet = Fleet(tmp_path, model, branch)
    report = recorded.report(fleet.with_readings(everywhere(fleet, monkeypatch)))
    (note,) = (note for note in report.notes if note.startswith("not available"))
    version = smi.BRANCHES[branch].version
    assert note.startswith(f"not available on driver {version} (worker[1-8]): ")
    # From 535 on, the driver says at least which GPU needs a reset.
    assert ("gpu.recovery_action" in note) is (int(branch) < 535)
    assert ("gpu.nvlink.crc" in note) is (model == "b200")
