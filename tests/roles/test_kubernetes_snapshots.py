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
from lockstep.plan.kubernetes import (
    BEGUN,
    DONE,
    ETCD_DATA,
    MANIFESTS,
    RESTORING,
    SNAPSHOTS,
    STOPPED,
)
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


class Run:
    """A run of pyinfra with three heads, whose commands all succeed."""

    inventory = SimpleNamespace(get_host=lambda name, default: name)

    def __init__(self, *active: str, failed: tuple[str, ...] = ()) -> None:
        self.is_executing, self.active_hosts, self.failed_hosts = True, list(active), list(failed)

    def does(self, name: str, node: str, **arguments: Any) -> str:
        """Return the command of an operation, or its refusal."""
        function: Any = getattr(restore, name)._inner
        first, *notes = function.__wrapped__(plan=HEADS[node], **arguments)
        assert isinstance(first, str)
        for note in notes:
            assert note.function(self, None)
        subprocess.run(["sh", "-n"], input=first if notes else "", text=True, check=True)
        return first


NONE: frozenset[str] = frozenset()
ALL = ("head1", "head2", "head3")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Begin a run of the restore."""
    monkeypatch.setattr(restore, "refusal", lambda why: why)

    def begin(*active: str, failed: tuple[str, ...] = ()) -> Run:
        run = Run(*active, failed=failed)
        monkeypatch.setattr(restore, "host", SimpleNamespace(state=run))
        return run

    return begin


def test_other_heads_stop_between_the_verification_and_the_restore(begun: Any) -> None:
    run = begun(*ALL)
    verify = run.does("verified", "head1", snapshot="/root/it's.db")
    assert "etcdutl snapshot restore" in verify
    assert "did not stop" not in verify
    for head in ALL[1:]:
        stop = run.does("stopped", head, lost=NONE)
        assert f"mv $one {STOPPED}/" in stop
        assert BEGUN not in stop
    now = run.does("restored", "head1", lost=NONE)
    steps = (
        "did not stop within",
        "systemctl restart kubelet.service",
        "kube-scheduler.yaml; then mv",
        f"rm -rf {RESTORING}",
    )
    places = [now.index(step) for step in steps]
    assert places == sorted(places)
    join = run.does("follows", "head2")
    assert join.index(f"touch {BEGUN}") < join.index(DONE) < join.index(f"rm -rf {STOPPED}")


def test_no_head_stops_unless_the_first_has_verified_the_snapshot(begun: Any) -> None:
    refused = begun(*ALL).does("stopped", "head2", lost=NONE)
    assert "head2 was not stopped, because head1 has not verified the snapshot. Next: " in refused


@pytest.mark.parametrize(
    ("active", "failed"), [(("head1", "head2"), ()), (ALL, ("head3",))], ids=["absent", "failed"]
)
def test_a_head_that_is_missing_or_failed_is_named(begun: Any, active: Any, failed: Any) -> None:
    run = begun(*active, failed=failed)
    run.does("verified", "head1", snapshot="/a.db")
    refused = run.does("stopped", "head2", lost=NONE)
    assert refused.startswith("head2 was not stopped: head3 failed in this run or is not in it")
    assert "Next: repair head3" in refused
    assert "--data lost=head3" in refused
    assert "head1 was not restored, because head2, head3 did not stop" in run.does(
        "restored", "head1", lost=NONE
    )
    gone = frozenset({"head3"})
    run.does("stopped", "head2", lost=gone)
    assert "systemctl restart kubelet" in run.does("restored", "head1", lost=gone)


def test_the_first_head_is_not_touched_unless_all_others_have_stopped(begun: Any) -> None:
    """Also where pyinfra goes head by head, so that the first has its turn before the others."""
    run = begun(*ALL)
    run.does("verified", "head1", snapshot="/a.db")
    run.does("stopped", "head2", lost=NONE)
    refused = run.does("restored", "head1", lost=NONE)
    assert refused.startswith("head1 was not restored, because head3 did not stop in this run. ")
    assert "Next: repair head3" in refused
    assert "head2 stays stopped, with its data, because head1" in run.does("follows", "head2")


@pytest.mark.parametrize("what", ["nothing", "containers", "a process"])
def test_what_does_not_run_has_stopped(tmp_path: Path, begun: Any, what: str) -> None:
    """A head without its disk has neither crictl nor manifests."""
    run = begun(*ALL)
    run.does("verified", "head1", snapshot="/a.db")
    command = run.does("stopped", "head2", lost=NONE)
    (tmp_path / "proc/12").mkdir(parents=True)
    process = "etcd" if what == "a process" else "kubelet"
    (tmp_path / "proc/12/comm").write_text(f"{process}\n")
    if what == "containers":
        (tmp_path / "crictl").write_text("#!/bin/sh\necho 0123\n")
        (tmp_path / "crictl").chmod(0o755)
    for path in (STOPPED, MANIFESTS, "/proc"):
        command = command.replace(path, str(tmp_path / path.lstrip("/")))
    (tmp_path / MANIFESTS.lstrip("/")).mkdir(parents=True)
    (tmp_path / MANIFESTS.lstrip("/") / "etcd.yaml").touch()
    command = command.replace(f"seq {restore.WITHIN_S}", "seq 1").replace("sync; ", "")
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
    )
    assert (tmp_path / STOPPED.lstrip("/") / "etcd.yaml").exists()
    assert (done.returncode == 0) == (what == "nothing"), done.stderr
    said = {"nothing": "", "containers": "did not stop within", "a process": "still runs etcd"}
    assert said[what] in done.stderr


def test_the_revision_grows_with_each_restore_of_a_snapshot(tmp_path: Path) -> None:
    """Also after a restore of a snapshot that is younger, and so has a higher revision."""
    function: Any = restore.verified._inner
    command, _ = function.__wrapped__(plan=HEADS["head1"], snapshot="/a.db")
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
