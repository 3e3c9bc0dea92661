"""deploys/remove.py on this machine: what it removes is gone, a second run does nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from lockstep.manifest import left_over, parsed, written
from lockstep.node.readers import manifest as reader
from lockstep.node.readers.commands import Commands
from lockstep.plan import NodePlan
from lockstep.roles.steps import removal
from tests.checks import recorded
from tests.roles.local import Done, fact, run

PLAN = recorded.consistent().plan.nodes["worker3"]
CONTENT = b"colour = red\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest with two files; the node is read by its own reader, in this process."""
    found = tmp_path / "manifest.json"
    files = {
        str(tmp_path / name): {"role": "node_exporter", "sha256": SHA256, "package": ""}
        for name in ("same", "odd", "gone")
    }
    found.write_text(written({**parsed(""), "files": files}))
    (tmp_path / "same").write_bytes(CONTENT)
    (tmp_path / "odd").write_bytes(b"by hand\n")
    monkeypatch.setattr(reader, "MANIFEST", str(found))

    def read(plan: NodePlan) -> Any:
        request: dict[str, Any] = {"files": [], "units": [], "sysctls": []}
        return left_over(plan, reader.read_manifest(request, Commands())["manifest"], ())

    monkeypatch.setattr(removal, "_left_over", read)
    monkeypatch.setattr(removal, "_busy", lambda plan: "")
    return found


def remove(path: Path) -> Done:
    return run(removal.removed, plan=PLAN, path=str(path))


def test_unchanged_files_go_changed_ones_stay_and_the_second_run_does_nothing(
    path: Path,
) -> None:
    assert remove(path) == Done(True, 2, "")
    folder = path.parent
    assert not (folder / "same").exists()
    assert (folder / "odd").read_bytes() == b"by hand\n"
    assert parsed(path.read_text())["files"].keys() == {str(folder / "odd")}
    before = path.stat()
    assert remove(path) == Done(True, 0, "")
    assert (path.stat().st_ino, path.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_an_unreadable_manifest_removes_nothing(path: Path) -> None:
    path.write_text("half of a li")
    done = remove(path)
    assert not done.succeeded
    assert "Next: restore it from a backup" in done.output
    assert (path.parent / "same").exists()


def test_steps_of_jobs_are_counted() -> None:
    assert fact(removal.JobSteps) == 0
