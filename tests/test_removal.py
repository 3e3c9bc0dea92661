"""The decisions of a removal, and its commands on files of this machine with simulated tools."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from lockstep import removal
from lockstep.manifest import LeftOver
from lockstep.removal import Removal, commands, decide
from tests.checks import recorded

PLAN = recorded.consistent().plan.nodes["worker3"]
CONTENT = b"colour = red\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def file(name: str, role: str = "node_exporter", state: str = "unchanged") -> LeftOver:
    return LeftOver("files", name, role, state, SHA256)


def other(section: str, name: str, state: str, role: str = "node_exporter") -> LeftOver:
    return LeftOver(section, name, role, state)


def why(decided: Removal) -> dict[str, str]:
    return {one.name: text for one, text in decided.stays}


def test_unchanged_files_and_units_are_removed_and_what_is_gone_is_forgotten() -> None:
    left = [
        file("/etc/a"),
        other("units", "a.service", "enabled, active"),
        file("/etc/b", state=""),
    ]
    assert decide(PLAN, left) == Removal(tuple(left[:2]), (left[2],))


@pytest.mark.parametrize("state", ["changed", "a symbolic link", "unread: too large"])
def test_a_file_that_somebody_changed_stays(state: str) -> None:
    decided = decide(PLAN, [file("/etc/a", state=state)])
    assert why(decided)["/etc/a"].startswith(state)
    assert not decided.taken
    assert not decided.gone


def test_packages_and_accounts_go_only_when_each_is_named() -> None:
    left = [
        other("packages", "slurmd", "installed"),
        other("packages", "munge", "installed"),
        other("groups", "hugetlb", "there"),
    ]
    decided = decide(PLAN, left, named=("munge",))
    assert [one.name for one in decided.taken] == ["munge"]
    assert why(decided)["slurmd"].endswith("--data packages=slurmd")
    assert why(decided)["hugetlb"].endswith("--data users=hugetlb")


def test_a_sysctl_stays_until_the_boot_that_ends_it() -> None:
    decided = decide(PLAN, [other("sysctl", "vm.odd", "1"), other("sysctl", "vm.gone", "")])
    assert "until the next boot" in why(decided)["vm.odd"]
    assert [one.name for one in decided.gone] == ["vm.gone"]


def test_on_a_busy_node_waits_what_jobs_use_and_what_no_role_declares_any_more() -> None:
    left = [
        file("/etc/a"),
        file("/etc/slurm/a", "slurm_worker"),
        file("/etc/site", "role_of_a_site"),
        other("units", "munge.service", "enabled", "munge"),
        other("packages", "p", "installed"),
    ]
    decided = decide(PLAN, left, named=("p",), busy="jobs run on the node")
    assert [one.name for one in decided.taken] == ["/etc/a"]
    assert set(why(decided).values()) == {"waits: jobs run on the node"}
    assert len(decide(PLAN, left, named=("p",)).taken) == len(left)


def test_what_a_reset_of_kubernetes_needs_waits_with_it() -> None:
    left = [file("/etc/a"), file("/etc/cni/net.d/10-lockstep.conflist", "kubernetes_node")]
    decided = decide(PLAN, left, busy="jobs run on the node", member=True)
    assert [one.name for one in decided.taken] == ["/etc/a"]
    assert list(why(decided).values()) == ["waits: jobs run on the node"]
    assert len(decide(PLAN, left, busy="jobs run on the node").taken) == 2
    assert len(decide(PLAN, left, member=True).taken) == 2


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Doubles of all programs that change a system; each writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("systemctl", "userdel", "groupdel", "apt-mark"):
        double(folder, name, "")
    double(folder, "dpkg-query", "printf 1.0-1")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    return folder


def double(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "{name} $*" >>"$SAID"\n{script}\n')
    path.chmod(0o755)


def execute(*taken: LeftOver) -> tuple[list[int], str]:
    """Return the status of each command, and what they wrote on standard error."""
    done = [
        subprocess.run(["sh", "-c", one], capture_output=True, text=True, check=False)
        for one in commands(taken, "apt-get", "debian")
    ]
    return [one.returncode for one in done], "".join(one.stderr for one in done)


def said() -> list[str]:
    path = Path(os.environ["SAID"])
    return path.read_text().splitlines() if path.exists() else []


def written(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_own_files_go_and_the_folder_of_a_drop_in_with_its_last_file(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "SYSTEMD", f"{tmp_path}/systemd/")
    plain = written(tmp_path / "etc/a.conf")
    alone = written(tmp_path / "systemd/a.service.d/50.conf")
    among = written(tmp_path / "systemd/b.service.d/50.conf")
    kept = written(tmp_path / "systemd/b.service.d/site.conf")
    assert execute(*(file(str(path)) for path in (plain, alone, among))) == ([0, 0], "")
    assert not plain.exists()
    assert plain.parent.exists()
    assert not alone.parent.exists()
    assert list(among.parent.iterdir()) == [kept]
    assert said() == ["systemctl daemon-reload"]


def test_a_file_that_is_changed_in_the_last_moment_stays(tools: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a", b"by hand\n")
    status, error = execute(file(str(path)))
    assert status == [1]
    assert f"not removed, its content has just changed: {path}" in error
    assert path.read_bytes() == b"by hand\n"


def test_units_are_off_before_their_files_go_and_systemd_reads_them_once(
    tools: Path, tmp_path: Path
) -> None:
    path = written(tmp_path / "a.service")
    left = (
        other("masked", "b.timer", "masked"),
        file(str(path)),
        other("units", "a.service", "enabled, active"),
    )
    assert execute(*left)[0] == [0, 0, 0, 0]
    assert said() == [
        "systemctl disable --no-reload -- a.service",
        "systemctl stop -- a.service",
        "systemctl unmask --no-reload -- b.timer",
        "systemctl daemon-reload",
    ]


def shipped(path: Path) -> LeftOver:
    return LeftOver("files", str(path), "node_exporter", "unchanged", SHA256, "p")


def test_a_packages_own_file_is_put_back_and_its_hold_stays(tools: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    double(tools, "apt-get", f'test ! -e {path}; echo "confmiss=$UCF_FORCE_CONFFMISS" >{path}')
    double(tools, "apt-mark", '[ "$1" = hold ] || echo p')
    assert execute(shipped(path)) == ([0, 0], "")
    assert path.read_text() == "confmiss=1\n"
    assert not Path(f"{path}.lockstep-old").exists()
    assert said() == [
        "dpkg-query -W -f ${Version} p",
        "apt-mark showhold p",
        "apt-get -o Dpkg::Options::=--force-confmiss --allow-change-held-packages "
        "--reinstall install p=1.0-1",
        "apt-mark hold p",
        "systemctl daemon-reload",
    ]


@pytest.mark.parametrize("script", ["exit 100", "exit 0"])
def test_where_the_package_does_not_bring_its_file_the_old_one_stays(
    tools: Path, tmp_path: Path, script: str
) -> None:
    path = written(tmp_path / "a")
    double(tools, "apt-get", script)
    status, error = execute(shipped(path))
    assert status[0] != 0
    assert f"not replaced, the package did not install it: {path}" in error
    assert path.read_bytes() == CONTENT


def test_a_package_goes_only_where_no_other_would_go_with_it(tools: Path) -> None:
    double(tools, "apt-get", 'case "$*" in *simulate*) echo "Remv p [1]"; echo "Remv q [1]";; esac')
    one, two = other("packages", "p", "installed"), other("packages", "q", "installed")
    status, error = execute(one)
    assert status[0] == 1
    assert "apt would also remove q" in error
    assert execute(one, two) == ([0, 0], "")
    assert said()[-2] == "apt-get --allow-change-held-packages remove p q"


def test_accounts_are_removed_by_name(tools: Path) -> None:
    assert execute(other("users", "u", "there"), other("groups", "g", "there"))[0] == [0, 0]
    assert said() == ["userdel -- u", "groupdel -- g"]
