"""deploys/remove.py on this machine: it removes what it should, and a second run does nothing."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from lockstep.manifest import parsed, written
from lockstep.node.readers.manifest import MANIFEST
from lockstep.plan import NodePlan
from lockstep.plan.kubernetes import ADMIN_CONF, DONE, KUBELET_CONF
from lockstep.roles.operations import kubernetes_leaving as leaving
from lockstep.roles.operations import manifest
from lockstep.roles.steps import removal
from tests.checks import recorded
from tests.roles.local import Done, on_node, run

PLAN = recorded.consistent().plan.nodes["worker3"]
CONTENT = b"colour = red\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A manifest of three files."""
    found = tmp_path / "manifest.json"
    files = {
        str(tmp_path / name): {"role": "node_exporter", "sha256": SHA256, "package": ""}
        for name in ("same", "odd", "gone")
    }
    found.write_text(written({**parsed(""), "files": files}))
    (tmp_path / "same").write_bytes(CONTENT)
    (tmp_path / "odd").write_bytes(b"by hand\n")
    on_node(monkeypatch, MANIFEST, str(found))
    monkeypatch.setattr(manifest, "MANIFEST", str(found))
    monkeypatch.setattr(removal, "_busy", lambda plan, job_steps, of_slurm: "")
    return found


def remove() -> Done:
    return run(removal.removed, plan=PLAN)


def test_unchanged_files_go_changed_ones_stay_and_the_second_run_does_nothing(
    path: Path,
) -> None:
    assert remove() == Done(True, 2, "")
    folder = path.parent
    assert not (folder / "same").exists()
    assert (folder / "odd").read_bytes() == b"by hand\n"
    assert parsed(path.read_text())["files"].keys() == {str(folder / "odd")}
    before = path.stat()
    assert remove() == Done(True, 0, "")
    assert (path.stat().st_ino, path.stat().st_ctime_ns) == (before.st_ino, before.st_ctime_ns)


def test_an_unreadable_manifest_removes_nothing(path: Path) -> None:
    path.write_text("half of a li")
    done = remove()
    assert not done.succeeded
    assert "Next: restore it from a backup" in done.output
    assert (path.parent / "same").exists()


def leave(monkeypatch: pytest.MonkeyPatch, command: str, *, member: bool = True) -> None:
    """Have this machine be a head of Kubernetes, or have been one, which a command resets."""
    there = frozenset({DONE, ADMIN_CONF, KUBELET_CONF} if member else {DONE})
    monkeypatch.setattr(leaving, "membership", lambda plan: there)
    monkeypatch.setattr(leaving, "undone", lambda plan, found: iter([command]))


def test_a_membership_of_kubernetes_ends_before_files_go(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same, pki = path.parent / "same", path.parent / "gone"
    pki.write_bytes(CONTENT)
    monkeypatch.setattr(removal, "PKI", str(path.parent / "pki"))
    held = parsed(path.read_text())
    held["files"][str(path.parent / "pki/ca.crt")] = held["files"].pop(str(pki))
    path.write_text(written(held))
    (path.parent / "pki").mkdir()
    (path.parent / "pki/ca.crt").write_bytes(CONTENT)
    # It fails unless Lockstep's files are still there.
    leave(monkeypatch, f"test -e {same} && rm -r {path.parent / 'pki'}")
    assert remove() == Done(True, 3, "")
    assert parsed(path.read_text())["files"].keys() == {str(path.parent / "odd")}


def test_authorities_go_from_a_node_that_a_person_has_reset(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "PKI", str(path.parent))
    leave(monkeypatch, "true", member=False)
    assert remove().succeeded
    assert not (path.parent / "same").exists()


def test_nothing_goes_if_the_membership_cannot_end(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(monkeypatch, "false")
    assert not remove().succeeded
    assert (path.parent / "same").exists()


def test_a_membership_waits_for_jobs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(monkeypatch, "false")
    monkeypatch.setattr(removal, "_busy", lambda plan, job_steps, of_slurm: "jobs run")
    assert remove().succeeded


@pytest.mark.parametrize(
    ("role", "member", "asked"),
    [
        ("slurm_worker", True, True),
        ("kubernetes_node", True, False),
        ("kubernetes_node", False, True),
    ],
)
def test_a_controller_that_does_not_have_the_node_yet_is_not_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch, role: str, member: bool, asked: bool
) -> None:
    held = parsed(path.read_text())
    for entry in held["files"].values():
        entry["role"] = role
    path.write_text(written(held))
    seen: list[bool] = []

    def busy(plan: NodePlan, job_steps: int, of_slurm: bool) -> str:
        seen.append(of_slurm)
        return "" if not of_slurm else "the controller did not report"

    monkeypatch.setattr(removal, "_busy", busy)
    if member:
        leave(monkeypatch, "true")
    assert remove().succeeded
    assert set(seen) == {asked}


def test_job_steps_count_wherever_the_node_belongs() -> None:
    worker = next(one for one in PLAN.cluster.nodes.values() if one.takes_slurm_jobs)
    assert removal._busy(worker, 1, of_slurm=False) == "job steps are running on the node"
    assert removal._busy(worker, 0, of_slurm=False) == ""


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here")
def test_what_cannot_be_read_is_not_removed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin" / "dpkg-query"
    broken.write_text("#!/bin/sh\necho 'cannot open the database' >&2; exit 2\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    assert not remove().succeeded
    assert (path.parent / "same").exists()
