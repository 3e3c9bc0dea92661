"""Snapshots of etcd: the program, over simulated programs of etcd; and the restore's refusals."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.plan.kubernetes import DONE, ETCD_DATA, RESTORING, SNAPSHOTS
from lockstep.roles.kubernetes_snapshots import PROGRAM
from lockstep.roles.steps import restore
from tests.golden.write import plan_of

HEADS = plan_of("kubernetes").nodes
DATABASE = b"objects" * 1000


@pytest.fixture
def snapshot(tmp_path: Path) -> Any:
    """Run the program of head1 below a folder; etcdctl saves the content of the file "database"."""
    (found,) = (one for one in managed(HEADS["head1"], None) if one.path == PROGRAM)
    text = found.content.decode()
    for path in (DONE, ETCD_DATA, SNAPSHOTS):
        text = text.replace(path, str(tmp_path / Path(path).name))
    text = text.replace("export PATH=", f"export PATH={tmp_path}:").replace("-n -28", "-n -2")
    crictl = tmp_path / "crictl"
    crictl.write_text(
        f'#!/bin/sh\ncase "$*" in *"snapshot save"*) for last; do :; done; '
        f'cp {tmp_path}/database "$last";; esac\n'
    )
    crictl.chmod(0o755)
    (tmp_path / "etcd").mkdir()
    (tmp_path / "done").touch()
    (tmp_path / "database").write_bytes(DATABASE + hashlib.sha256(DATABASE).digest())

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", text], capture_output=True, text=True, check=False, env=dict(os.environ)
        )

    return run


def test_a_snapshot_is_verified_and_only_root_reads_it(tmp_path: Path, snapshot: Any) -> None:
    done = snapshot()
    assert done.returncode == 0, done.stderr
    (kept,) = (tmp_path / "etcd-snapshots").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_bytes()[:-32] == DATABASE
    assert list((tmp_path / "etcd").iterdir()) == []


def test_a_damaged_one_is_not_kept(tmp_path: Path, snapshot: Any) -> None:
    (tmp_path / "database").write_bytes(b"x" + DATABASE + hashlib.sha256(DATABASE).digest())
    done = snapshot()
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert list((tmp_path / "etcd-snapshots").iterdir()) == []


def test_the_oldest_are_deleted_and_files_of_others_stay(tmp_path: Path, snapshot: Any) -> None:
    folder = tmp_path / "etcd-snapshots"
    folder.mkdir()
    for name in ("2020-01-01T00-00-00Z.db", "2020-01-02T00-00-00Z.db", "before-upgrade.db"):
        (folder / name).touch()
    assert snapshot().returncode == 0
    left = sorted(one.name for one in folder.iterdir())
    assert left[0] == "2020-01-02T00-00-00Z.db"
    assert left[-1] == "before-upgrade.db"
    assert len(left) == 3


def test_a_head_without_a_control_plane_saves_nothing(tmp_path: Path, snapshot: Any) -> None:
    (tmp_path / "done").unlink()
    assert snapshot().returncode == 0
    assert not (tmp_path / "etcd-snapshots").exists()


def stopped(monkeypatch: pytest.MonkeyPatch, **state: list[str]) -> Any:
    """What another head does once the first one has had its turn."""
    known = SimpleNamespace(
        inventory=SimpleNamespace(get_host=lambda name, default: name), is_executing=True, **state
    )
    monkeypatch.setattr(restore, "host", SimpleNamespace(state=known))
    monkeypatch.setattr(restore, "refusal", lambda why: why)
    function: Any = restore.stopped._inner
    return list(function.__wrapped__(plan=HEADS["head2"]))


def test_other_heads_stay_unless_the_first_has_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: tuple[dict[str, list[str]], ...] = (
        {"active_hosts": [], "failed_hosts": []},
        {"active_hosts": ["head1"], "failed_hosts": ["head1"]},
    )
    for state in failed:
        (only,) = stopped(monkeypatch, **state)
        assert only == "head2 was left alone, because head1 has not restored the snapshot"
    (command,) = stopped(monkeypatch, active_hosts=["head1"], failed_hosts=[])
    assert "touch /var/lib/lockstep/kubernetes/begun" in command
    subprocess.run(["sh", "-n"], input=command, text=True, check=True)


def test_nothing_stops_before_the_snapshot_was_read_and_the_note_goes_last() -> None:
    function: Any = restore.restored._inner
    (command,) = function.__wrapped__(plan=HEADS["head1"], snapshot="/root/it's.db")
    subprocess.run(["sh", "-n"], input=command, text=True, check=True)
    steps = (
        "etcdutl snapshot restore",
        "did not stop within",
        "systemctl restart kubelet.service",
        "kube-scheduler.yaml; then mv",
        f"rm -rf {RESTORING}",
    )
    places = [command.index(step) for step in steps]
    assert places == sorted(places)


def test_the_revision_grows_with_each_restore_of_a_snapshot(tmp_path: Path) -> None:
    """Also after a restore of a snapshot that is younger, and so has a higher revision."""
    function: Any = restore.restored._inner
    (command,) = function.__wrapped__(plan=HEADS["head1"], snapshot="/a.db")
    etcdutl = tmp_path / "etcdutl"
    begin, end = (command.index(word) for word in ("known=", "$etcdutl snapshot restore"))
    script = f"set -eu; etcdutl={etcdutl}; {command[begin:end]}echo $bump"

    def revision(now: int, known: str) -> int:
        etcdutl.write_text(f"#!/bin/sh\necho '{known}'\n")
        etcdutl.chmod(0o755)
        words = script.replace("$(date +%s)", str(now))
        done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=True)
        return int(done.stdout) + int(json.loads(known)["revision"])

    first = revision(1_795_000_000, '{"hash":2,"revision":4614,"totalKey":649}')
    assert first == 1_795_000_000_000
    assert revision(1_795_000_060, f'{{"revision":{first + 9}}}') == 1_795_000_060_000
    assert revision(1_795_000_120, '{"hash":2,"revision":4614}') == 1_795_000_120_000
    beyond = 1_795_000_120_001
    assert revision(1_795_000_120, f'{{"revision":{beyond}}}') == beyond + restore.FURTHER
    with pytest.raises(subprocess.CalledProcessError):
        revision(1_795_000_120, '{"hash":2}')
