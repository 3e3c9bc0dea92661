"""The lines of ``lockstep plan`` about what it leaves out and what is not verified."""

from typing import Any

import pytest

from lockstep import spec
from lockstep.commands.plan import _cluster
from lockstep.inventory import planned
from lockstep.plan import ClusterPlan
from lockstep.roles import declared
from tests.spec.example import description as plain
from tests.spec.nvidia_example import description


def planned_with(wanted: dict[str, Any]) -> ClusterPlan:
    cluster, problems = spec.load(wanted, declared())
    assert problems == []
    assert cluster is not None
    return planned(cluster)


def notes(model: object = "h200", **stack: object) -> tuple[str, ...]:
    wanted = description()
    wanted["hardware"]["hgx"]["gpu"]["model"] = model
    versions = wanted["software"]["nvidia"]
    driver = stack.get("driver", versions["driver"])
    versions.update(stack, fabric_manager=driver, nscq=driver)
    return planned_with(wanted).notes


def test_a_known_set_has_no_note() -> None:
    assert notes() == ()
    assert planned_with(plain()).notes == ()


@pytest.mark.parametrize(
    ("modules", "nics", "noted"),
    [
        ("open", {"rdma": "infiniband"}, False),
        ("proprietary", {"rdma": "infiniband"}, True),
        ("proprietary", {"rdma": "infiniband", "gpudirect": "peermem"}, False),
        ("proprietary", {}, False),
    ],
)
def test_rdma_that_cannot_reach_gpu_memory_is_noted(
    modules: str, nics: dict[str, str], noted: bool
) -> None:
    wanted = description()
    wanted["software"]["nvidia"]["modules"] = modules
    wanted["hardware"]["hgx"]["nics"] = {"count": 8, **nics}
    found = planned_with(wanted).notes
    assert [note.partition(",")[0] for note in found] == (
        ["hardware class hgx: no GPUDirect RDMA"] if noted else []
    )


@pytest.mark.parametrize(
    ("model", "stack", "note"),
    [
        (
            "h200",
            {"driver": "999.10.01"},
            "not verified: driver 999.10.01: branch 999 is not in the catalogue",
        ),
        (
            "h200",
            {"driver": "570.172.08", "cuda": ["12.8"]},
            "NVIDIA no longer supports driver branch 570 (as of 2026-11-24). Supported branches: "
            "580, 595, 620; check which of them your repository has",
        ),
        ("h200", {"cuda": ["13.9"]}, "not verified: CUDA 13.9 is newer than the catalogue"),
        (
            "h200",
            {"cuda": ["13.3"]},
            "not verified: CUDA 13.3 (a third-party document: VMAFx, decision record 0738)",
        ),
        (
            "NVIDIA X",
            {},
            "not verified: driver 580.95.05 for hardware class hgx (NVIDIA X): "
            "no architecture is declared",
        ),
    ],
)
def test_what_is_not_verified_is_one_line(
    model: object, stack: dict[str, object], note: str
) -> None:
    assert notes(model, **stack) == (note,)


def test_a_driver_older_than_the_list_with_the_model_is_noted() -> None:
    assert (
        "not verified: driver 550.163.01 for hardware class hgx (NVIDIA H200 NVL): branch 565 is "
        "the first one that lists the model"
    ) in notes("h200_nvl", driver="550.163.01", cuda=["12.4"])


def test_a_branch_that_nvidia_does_not_document_is_noted() -> None:
    found = notes("a100", driver="530.30.02", cuda=["12.1"])
    assert found[0].startswith("not verified: driver branch 530 (CUDA Toolkit release notes")


LEFT_OUT = (
    "hardware class hgx: Lockstep does not set up or check its 8 AMD GPUs, and does not declare "
    "them to Slurm"
)


def test_gpus_of_other_vendors_are_left_out_of_the_plan() -> None:
    wanted = plain()
    wanted["hardware"]["hgx"]["gpu"] = {"vendor": "amd", "count": 8}
    plan = planned_with(wanted)
    worker = plan.nodes["worker1"]
    assert plan.notes == plan.left_out == (LEFT_OUT,)
    assert LEFT_OUT in _cluster(plan).splitlines()
    assert plan.to_json()["notes"] == [LEFT_OUT]
    assert (worker.gpu, worker.nvidia, worker.hardware.gpu_model) == (None, None, None)
    assert worker.hardware.gpu_devices == ()
    assert worker.hardware.slurm.gres == ""
    assert "gpu_settings" not in worker.roles
    assert "slurm_worker" in worker.roles
