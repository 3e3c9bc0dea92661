"""A GPU that does not answer is one finding, whatever else cannot be read because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nvml.test_check import SICK, Fleet, everywhere, of_gpus

FORMS = {
    "yes": "gpu.lost",
    "values": "gpu.lost",
    "unknown_error": "gpu.lost",
    "initialization_failed": "gpu.count",
    "requires_reset": "gpu.recovery_action",
}
"""Form in which NVML reports the GPU -> rule that names it."""


@pytest.mark.parametrize(("branch", "model"), [("470", "a100"), ("550", "h200")])
def test_a_sick_gpu_is_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, branch: str, model: str
) -> None:
    fleet = Fleet(tmp_path, model, branch)
    healthy = everywhere(fleet, monkeypatch)
    for form, rule in FORMS.items():
        sick = fleet.node(SICK)
        sick.set("3", f"lost={form}")
        readings = {**healthy, SICK: fleet.read(sick, monkeypatch)}
        found = [*of_gpus(fleet.with_readings(readings))]
        assert [(one.rule, one.node) for one in found] == [(rule, SICK)], (form, found)
        assert found[0].status != "unknown", form
