"""A deploy waits until its new workers offer GPUs, and for no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockstep.inventory import planned
from lockstep.roles import declared
from lockstep.roles.operations import kubernetes_gpus
from lockstep.roles.operations.kubernetes_gpus import offered
from lockstep.spec import load
from tests.roles.local import noting, run
from tests.spec.kubernetes_example import description


def node(ready: str = "True", cordoned: bool = False, gpus: int = 0) -> dict[str, Any]:
    offers = {"nvidia.com/gpu": str(gpus)}
    return {"conditions": {"Ready": ready}, "unschedulable": cordoned, "allocatable": offers}


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the calls of a kubectl that tells of no GPUs."""
    return noting("kubectl", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("second", "waits"),
    [
        (node(gpus=8), False),
        (node(), True),
        (node("False"), True),
        (node("Unknown"), False),
        (node(cordoned=True), False),
        ({}, False),
    ],
    ids=["offers", "offers none", "has just joined", "is lost", "is cordoned", "did not join"],
)
def test_a_deploy_waits_for_gpus_of_new_workers_only(
    second: dict[str, Any], waits: bool, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {"worker1": node(gpus=8), **({"worker2": second} if second else {})}
    monkeypatch.setattr(kubernetes_gpus, "ask", lambda question: seen)
    monkeypatch.setattr(kubernetes_gpus, "OFFERED_S", {"operator": 0})
    loaded, problems = load(description(), declared())
    assert loaded is not None, problems
    done = run(offered, plan=planned(loaded).nodes["head1"])
    assert done.succeeded != waits
    assert kubectl.exists() == waits
    if waits:
        assert "worker2 offers no GPUs after 0 s. Next: kubectl" in done.output
