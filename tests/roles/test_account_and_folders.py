"""The account and the folders of a node of the RHEL family, by systemd's real programs."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from lockstep.files import managed
from lockstep.plan.folders import SYSUSERS, TMPFILES, Folder, missing_in_packages
from lockstep.roles.operations.packages import account_and_folders
from tests.plan.on_release import planned_on
from tests.roles.local import run


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root for systemd's programs; in their commands, both run in it."""
    folder = tmp_path / "root"
    (folder / "etc").mkdir(parents=True)
    programs = tmp_path / "systemd-bin"
    programs.mkdir()
    for name in ("systemd-sysusers", "systemd-tmpfiles"):
        real = shutil.which(name)
        if real is None or os.geteuid() != 0:
            pytest.skip(f"needs root and {name}")
        double = programs / name
        double.write_text(f'#!/bin/sh\nexec {real} --root={folder} "$@"\n')
        double.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder


def test_systemd_makes_the_account_and_the_folders(root: Path, tmp_path: Path) -> None:
    plan = planned_on("rocky_9").nodes["worker01"]
    written = {file.path: file.content for file in managed(plan, None, "packages")}
    for path in (SYSUSERS, TMPFILES):
        new = root / path.lstrip("/")
        new.parent.mkdir()
        new.write_bytes(written[path])
    wanted = dict(missing_in_packages(plan))
    done = run(
        account_and_folders,
        folders={str(tmp_path / "absent"): Folder()},
        sysusers=str(root / SYSUSERS[1:]),
        tmpfiles=str(root / TMPFILES[1:]),
    )
    assert done.succeeded
    assert "\nslurm:x:64030:64030:" in "\n" + (root / "etc/passwd").read_text()
    for path, rights in wanted.items():
        about = (root / path.lstrip("/")).stat()
        owner = 64030 if rights and rights.user == "slurm" else 0
        assert (about.st_uid, about.st_mode & 0o777) == (owner, 0o755), path


def test_a_failure_of_sysusers_fails_and_nothing_to_do_writes_nothing(
    root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "there"
    folder.mkdir(mode=0o755)
    files = {"sysusers": "/etc/sysusers.d/absent.conf", "tmpfiles": TMPFILES}
    assert run(account_and_folders, folders={str(folder): Folder()}, **files).commands == 0
    other = {str(folder): Folder("slurm", "slurm")}
    assert not run(account_and_folders, folders=other, **files).succeeded
    file = tmp_path / "file"
    file.touch()
    assert not run(account_and_folders, folders={str(file): None}, **files).succeeded


@pytest.mark.parametrize("path", [SYSUSERS, TMPFILES])
def test_systemd_checks_the_files_before_they_are_written(path: str, tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("systemd-sysusers"):
        pytest.skip("needs root and systemd-sysusers")
    plan = planned_on("rocky_9").nodes["worker01"]
    (file,) = (one for one in managed(plan, None, "packages") if one.path == path)
    text = file.content.decode()
    for new, ok in (
        (text, True),
        (text.replace("slurm slurm", "slrm slurm").replace("64030", "64o30"), False),
        (text + "an other line\n", False),
    ):
        candidate = tmp_path / "candidate.conf"
        candidate.write_text(new)
        command = file.validate.format(new=shlex.quote(str(candidate)))
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is ok, done.stderr
        assert ok or str(candidate) in done.stderr
