"""Every model and fault on every driver branch, over the simulated NVML; needs no machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.nvml import models
from lockstep.node.readers.reading import NOT_AVAILABLE
from tests.nvml.test_check import FAULTS, PAIRS, Fleet, healthy, named, with_fault
from tests.nvml.test_generated_states import branches, survives
from tests.nvml.test_models import UNRECORDED

pytestmark = [pytest.mark.lab, pytest.mark.slow]

OTHERS = [
    (branch, model)
    for model in models.known()
    if model not in UNRECORDED
    for branch in branches(model)
]
"""All pairs of model and branch that NVIDIA supports; a Blackwell GPU runs the newest program."""


@pytest.mark.parametrize(("branch", "model"), sorted({*OTHERS} - {*PAIRS}))
def test_healthy_gpus_have_no_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str, model: str
) -> None:
    healthy(tmp_path, monkeypatch, branch, model)


@pytest.mark.parametrize("branch", ["450", "460", "555"])
@pytest.mark.parametrize("fault", FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_named_with_its_node(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    branch: str,
    fault: tuple[str, str, str, bool],
) -> None:
    named(tmp_path, monkeypatch, branch, fault)


UNTOLD = {"gpu.row_remap": ("gpu.remapped.pending", "gpu.remapped.failure")}
"""Rule -> readings that branch 418 does not offer. Its GPUs have no rows to remap."""


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        pytest.param(model, fault, id=f"{model}-{fault[0]}")
        for model in ("v100", "t4")
        for fault in FAULTS
        if model != "t4" or fault[1] != "gpu.nvlink"
    ],
)
def test_the_oldest_branch_names_a_fault_or_declares_that_it_cannot(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    fault: tuple[str, str, str, bool],
) -> None:
    """NVIDIA supports neither an A100 nor a newer GPU on branch 418."""
    setting, rule, found, drains = fault
    if rule not in UNTOLD:
        # Without NVSwitch, the board decides how many links are connected: only peers tell.
        drains = drains and (model, rule) != ("v100", "gpu.nvlink")
        named(tmp_path, monkeypatch, "418", (setting, rule, found, drains), model)
        return
    seen, here = with_fault(Fleet(tmp_path, model, "418"), monkeypatch, setting, rule)
    assert here == []
    for reading in UNTOLD[rule]:
        assert seen[reading]["unread"].startswith(NOT_AVAILABLE)


@pytest.mark.timeout(1200)
def test_a_thousand_generated_states_crash_no_program(tmp_path: Path) -> None:
    for seed in range(1000, 2000):
        survives(tmp_path, seed)
