"""A deploy waits until its workers offer GPUs, unless they are out of service."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.inventory import planned
from lockstep.roles import declared
from lockstep.roles.operations import kubernetes_gpus
from lockstep.roles.operations.kubernetes_gpus import offered
from lockstep.spec import load
from tests.roles.local import Done, noting, run
from tests.spec.kubernetes_example import description


def node(name: str, ready: str = "True", cordoned: bool = False, gpus: int = 0) -> str:
    """A line as kubectl prints it."""
    return f"{name}{' cordoned' * cordoned} Ready={ready} cpu=30 nvidia.com/gpu={gpus}"


def deployed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str, status: int = 0
) -> tuple[Done, str]:
    """Run the operation with a kubectl that prints these lines; return also how it was called."""
    calls = noting("kubectl", tmp_path, monkeypatch)
    printed = "".join(f"echo '{line}'; " for line in lines)
    with (tmp_path / "bin" / "kubectl").open("a", encoding="utf-8") as program:
        program.write(f'case "$*" in *go-template*) {printed} exit {status};; esac\n')
    monkeypatch.setattr(kubernetes_gpus, "OFFERED_S", {"operator": 0})
    loaded, problems = load(description(), declared())
    assert loaded is not None, problems
    done = run(offered, plan=planned(loaded).nodes["head1"])
    return done, calls.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("second", "waits"),
    [
        (node("worker2", gpus=8), False),
        ("worker2 Ready=True nvidia.com/gpu=0 nvidia.com/mig-1g.18gb=7", False),
        (node("worker2"), True),
        ("worker2 Ready=True cpu=30", True),
        (node("worker2", "False"), True),
        (node("worker2", "Unknown"), False),
        (node("worker2", cordoned=True), False),
        ("head1 Ready=True cpu=4", False),
    ],
    ids=[
        *("offers", "offers parts", "offers none", "has no plugin yet", "has just joined"),
        *("is lost", "is cordoned", "did not join"),
    ],
)
def test_a_deploy_waits_for_gpus_of_workers_that_take_pods(
    second: str, waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, calls = deployed(tmp_path, monkeypatch, node("worker1", gpus=8), second)
    assert done.succeeded != waits
    assert ("get node worker2 -o jsonpath" in calls) is waits
    assert calls.count("go-template") == 1
    if waits:
        assert "worker2 offers no GPUs after 0 s. Next: kubectl" in done.output


def test_unknown_gpus_are_not_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        done, _ = deployed(tmp_path, monkeypatch, status=1)
    assert not done.succeeded
    assert "Next: on head1: kubectl" in caplog.text
