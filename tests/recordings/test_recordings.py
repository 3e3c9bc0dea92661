"""Recorded answers of real GPUs: none has a finding, apart from what is really wrong there.

Each recording is played to the probe; the description has only the name and the number of the GPUs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockstep.node.readers.gpu_fields import EVERY, SENSORS
from lockstep.report import Finding
from tests.recordings import fleet, player
from tests.recordings.player import Recording

DOCS = Path(__file__).parents[2] / "docs"
Wrong = set[tuple[str, str]]
"""Rule and device of a finding."""

DIVIDED = {
    "a100-535": ["1g.20gb"] * 4,
    "a100_40gb_mig-510": ["3g.20gb"] * 2,
    "h100_mig-590": ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"],
    "h200_mig-590": ["3g.71gb", "2g.35gb", "1g.18gb", "1g.18gb"],
}
"""Recording -> the declared MIG devices."""
WRONG: dict[str, Wrong] = {
    "a100_sxm_500w-555": {("gpu.row_remap", "gpu1")},
    # Two compute instances share the instance 3g.71gb.
    "h200_mig-590": {("gpu.mig_layout", "gpu0")},
    # The GPUs of one node have two VBIOS versions.
    "v100_16gb-550": {("gpu.vbios", "")},
    # Programs that Slurm did not start: a desktop, and other people's jobs.
    "rtx_3080-595": {("gpu.memory_used", "gpu0")},
    "rtx_4000_sff_ada-595": {("gpu.memory_used", "gpu0")},
    "rtx_4080_super-595": {("gpu.memory_used", "gpu0")},
    "t4-515": {("gpu.memory_used", "gpu0")},
    "pro_6000_max_q-590": {("gpu.memory_used", "gpu0")},
}
"""Recording -> what is really wrong, or not as declared."""
DRAINED = {"gpu.row_remap"}


def found(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, **declared: Any
) -> tuple[list[Finding], Wrong, list[str]]:
    """Return the findings, and what the node check of one worker finds: failures, unread values."""
    context = fleet.cluster(recording, **declared)
    readings = {
        worker: fleet.read(recording.on(number), monkeypatch)
        for number, worker in enumerate(fleet.WORKERS)
    }
    findings = fleet.findings(fleet.with_readings(context, readings))
    judged = fleet.node_check(context.plan.nodes[fleet.SICK], readings[fleet.SICK])
    failed = {(one.rule, one.device) for one in judged if not one.unread}
    return findings, failed, [one.text for one in judged if one.unread]


@pytest.mark.parametrize("name", player.NAMES)
def test_only_what_is_wrong_on_real_gpus_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mig = {"mig": DIVIDED[name]} if name in DIVIDED else {}
    findings, failed, unread = found(player.load(name), monkeypatch, **mig)
    wrong = WRONG.get(name, set())
    assert {(one.rule, one.device) for one in findings} == wrong
    assert failed == {one for one in wrong if one[0] in DRAINED}
    assert unread == []


def test_the_recordings_are_many_and_of_all_branches() -> None:
    recordings = [*player.every()]
    models = {model for one in recordings for model in one.models}
    branches = {one.branch for one in recordings}
    text = " ".join((DOCS / "nvidia.md").read_text(encoding="utf-8").split())
    assert f"{len(recordings)} recordings of {len(models)} models" in text
    assert f"with the drivers {min(branches)} to {max(branches)}" in text
    assert {470, 510, 515, 525, 535, 550, 555, 560, 565, 570, 580, 590, 595, 610} <= branches


@pytest.mark.parametrize("name", ["b200-580", "h200-590", "rtx_2080_super-610", "t4-595"])
def test_a_driver_with_all_fields_is_asked_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = player.load(name)
    assert all(recording.offers(field) for field in (*(one for _, one, _ in EVERY), *SENSORS))
    asked: list[str] = []
    answer = Recording.outcome

    def heard(self: Recording, *argv: str) -> tuple[int, str, str]:
        asked.append(argv[0].partition("=")[0])
        return answer(self, *argv)

    monkeypatch.setattr(Recording, "outcome", heard)
    fleet.read(recording, monkeypatch)
    assert asked == ["--query-gpu", "-L", "nvlink", "nvlink", "topo"]


# --- faults

OLD, NEW, RACK, FABRIC = "a100_40gb-570", "h100-580", "gb200-580", "h100-565"
TURING = "t4-515"
SICK_GPU = "1"
HANDLE = "Unable to determine the device handle for "
ERROR = "[Unknown Error]"
FAULTS = (
    # recording, values of one GPU of one node, rule, device, whether the node drains
    (NEW, {"gpu_recovery_action": "Reset"}, "gpu.recovery_action", "gpu1", True),
    (NEW, {"gpu_recovery_action": "Reboot"}, "gpu.recovery_action", "gpu1", True),
    (NEW, {"gpu_recovery_action": "Drain P2P"}, "gpu.recovery_action", "gpu1", True),
    (RACK, {"gpu_recovery_action": "Drain and Reset"}, "gpu.recovery_action", "gpu1", True),
    (FABRIC, {"reset_status__reset_required": "Yes"}, "gpu.recovery_action", "gpu1", True),
    (
        FABRIC,
        {"reset_status__drain_and_reset_recommended": "Yes"},
        "gpu.recovery_action",
        "gpu1",
        True,
    ),
    (NEW, {"ecc__errors__uncorrected__volatile__total": "3"}, "gpu.ecc_uncorrected", "gpu1", True),
    (TURING, {"retired_pages__pending": "Yes"}, "gpu.page_retirement", "gpu0", True),
    ("v100_16gb-550", {"retired_pages__pending": "Yes"}, "gpu.page_retirement", "gpu1", True),
    ("a40-550", {"remapped_rows__pending": "Yes"}, "gpu.row_remap", "gpu1", True),
    (NEW, {"remapped_rows__failure": "Yes"}, "gpu.row_remap", "gpu1", True),
    (FABRIC, {"fabric__state": "In Progress", "fabric__status": "N/A"}, "gpu.fabric", "gpu1", True),
    (NEW, {"fabric__status": "Failure"}, "gpu.fabric", "gpu1", True),
    (RACK, {"fabric__health__summary": "Unhealthy"}, "gpu.fabric_health", "gpu1", True),
    (RACK, {"fabric__health__summary": "Limited Capacity"}, "gpu.fabric_health", "gpu1", True),
    ("l40s-595", {"power__draw": ERROR}, "gpu.silent", "gpu0", True),
    ("rtx_4090-550", {"power__draw": ERROR, "pstate": ERROR}, "gpu.silent", "gpu1", True),
    (
        "a40-550",
        {"clocks_event_reasons__active": "0x0000000000000048"},
        "gpu.slowdown",
        "gpu1",
        True,
    ),
    (RACK, {"clocks_event_reasons__active": "0x0000000000000088"}, "gpu.slowdown", "gpu1", True),
    (FABRIC, {"enforced__power__limit": "350.00"}, "gpu.power_limit", "gpu1", True),
    ("gb300-580", {"enforced__power__limit": "700.00"}, "gpu.power_limit", "gpu1", True),
    ("gh200-550", {"enforced__power__limit": "450.00"}, "gpu.power_module", "gpu0", False),
    (
        "h200-590",
        {"ecc__errors__uncorrected__aggregate__sram__thresholdExceeded": "Yes"},
        "gpu.ecc_sram_threshold",
        "gpu0",
        True,
    ),
    (NEW, {"name": "NVIDIA H100 PCIe"}, "gpu.name", "gpu1", False),
    ("rtx_6000_ada-550", {"ecc__mode__current": "Enabled"}, "gpu.ecc", "gpu1", False),
    ("rtx_4090-550", {"persistence_mode": "Disabled"}, "gpu.persistence", "gpu1", False),
    ("l4-550", {"pcie__link__width__current": "4"}, "gpu.pcie_width", "gpu0", False),
    ("h100_nvl-550", {"memory__total": "81559"}, "gpu.memory", "gpu1", False),
    ("a100_sxm_500w-555", {"power__max_limit": "400.00"}, "gpu.power_range", "gpu2", False),
)


def with_one_sick(
    sick: Recording, healthy: Recording, monkeypatch: pytest.MonkeyPatch
) -> tuple[Wrong, Wrong]:
    """Return what is found on a worker with a sick GPU, by the check and by the node check."""
    context = fleet.cluster(healthy)
    readings = {
        worker: fleet.read((sick if worker == fleet.SICK else healthy).on(number), monkeypatch)
        for number, worker in enumerate(fleet.WORKERS)
    }
    findings = fleet.findings(fleet.with_readings(context, readings))
    here = {(one.rule, one.device) for one in findings if one.node == fleet.SICK}
    judged = fleet.node_check(context.plan.nodes[fleet.SICK], readings[fleet.SICK])
    return here, {(one.rule, one.device) for one in judged if not one.unread}


@pytest.mark.parametrize(("name", "values", "rule", "device", "drains"), FAULTS)
def test_a_fault_of_a_recorded_gpu_is_named_and_drained(
    name: str,
    values: dict[str, str],
    rule: str,
    device: str,
    drains: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    healthy = player.load(name)
    sick = healthy.with_values(device.removeprefix("gpu"), **values)
    here, failed = with_one_sick(sick, healthy, monkeypatch)
    assert (rule, device) in here
    assert ((rule, device) in failed) is drains


ADDRESS = "0000:2a:00.0"
SAID = (
    # What is printed instead of one GPU's row; the device that is named.
    (f"{HANDLE}GPU1: {ADDRESS}: Unknown Error", ADDRESS),
    (f"{HANDLE}GPU{ADDRESS}: Unknown Error", ADDRESS),
    (f"{HANDLE}GPU {ADDRESS}: GPU is lost.  Reboot the system to recover this GPU", ADDRESS),
    (f"{HANDLE}GPU {ADDRESS}: Not Found", ADDRESS),
    (f"{HANDLE}gpu 1: GPU is lost.", "gpu1"),
)


@pytest.mark.parametrize(("line", "device"), SAID)
@pytest.mark.parametrize("stream", ["out", "err"])
@pytest.mark.parametrize("status", [0, 15, 255])
def test_a_gpu_that_fell_off_the_bus_is_named_and_drained(
    line: str, device: str, stream: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = player.load(NEW)
    lost = player.lost(healthy, SICK_GPU, line, stream, status)
    here, failed = with_one_sick(lost, healthy, monkeypatch)
    assert ("gpu.lost", device) in here
    assert ("gpu.lost", device) in failed


WHOLE = (
    # The whole answer; the rule that drains the node.
    ("No devices were found\n", "gpu.lost"),
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
        "that the latest NVIDIA driver is installed and running.\n\n",
        "gpu.count",
    ),
    ("Failed to initialize NVML: Driver/library version mismatch\n", "gpu.count"),
    ("Failed to initialize NVML: Unknown Error\n", "gpu.count"),
    ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", "gpu.count"),
)


@pytest.mark.parametrize(("text", "rule"), WHOLE)
@pytest.mark.parametrize("status", [0, 1, 6, 9, 12, 18, 255])
def test_a_driver_that_is_gone_is_named_and_drained(
    text: str, rule: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = player.load(NEW)
    here, failed = with_one_sick(player.silenced(healthy, text, status), healthy, monkeypatch)
    assert rule in {one for one, _ in here}
    assert rule in {one for one, _ in failed}


def test_a_corrupted_inforom_is_named_and_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (NEW, "v100_16gb-550"):
        healthy = player.load(name)
        place = healthy.gpus[SICK_GPU]["pci.bus_id"][4:]
        sick = player.warned(healthy, f"WARNING: infoROM is corrupted at gpu {place}\n")
        here, failed = with_one_sick(sick, healthy, monkeypatch)
        assert ("gpu.inforom_valid", "gpu1") in here
        assert ("gpu.inforom_valid", "gpu1") in failed


@pytest.mark.parametrize("links", [["26.562 GB/s"] * 17 + ["<inactive>"], ["<inactive>"] * 18])
def test_links_that_are_down_are_named_and_drained(
    links: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy = player.linked(player.load(NEW), ["26.562 GB/s"] * 18)
    sick = player.linked(healthy, links, SICK_GPU)
    context = fleet.cluster(healthy, nvswitch=True)
    readings = fleet.read(sick, monkeypatch)
    judged = fleet.node_check(context.plan.nodes[fleet.SICK], readings)
    assert [(one.rule, one.device) for one in judged] == [("gpu.nvlink", "gpu1")]
    # Without nvswitch, the peers say how many links there are.
    here, _ = with_one_sick(sick, healthy, monkeypatch)
    assert here == {("gpu.nvlink", "gpu1")}


def test_a_virtual_gpu_lacks_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = fleet.read(player.load("rtxa6000_24q-535"), monkeypatch)
    for name in ("gpu.power.enforced_w", "gpu.pcie.width_current", "gpu.clocks.max_sm_mhz"):
        assert readings[name] == {"value": {"gpu0": "not supported"}}
