"""Packages on this machine: dpkg is read for real; apt-get is a double that writes down calls."""

import shutil
import stat
from pathlib import Path

import pytest

from lockstep.facts.packages import Packages
from roles._packages import locked_packages
from tests.roles.local import fact, run

pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here")

ABSENT = "lockstep-no-such-package"


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the double of apt-get and dpkg --configure writes its arguments."""
    log = tmp_path / "calls"
    log.touch()
    double = tmp_path / "bin" / "apt-get"
    double.parent.mkdir()
    # The lists know nothing of "unknown=...": the simulation fails, as apt-get's does.
    double.write_text(
        f'#!/bin/sh\necho "$LOCKSTEP_DEFER_START $*" >> {log}\n'
        'case "$*" in *--simulate*unknown=*) exit 100;; esac\n'
    )
    double.chmod(double.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{double.parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    return log


def asked(calls: Path) -> list[str]:
    """What apt-get was asked for: its action and packages, without options."""
    said = []
    for line in calls.read_text().splitlines():
        words = line.split(" ")
        plain = [w for w in words[1:] if not w.startswith("-") and "::" not in w]
        said.append(
            " ".join([("simulate " if "--simulate" in words else "") + plain[0], *plain[1:]])
        )
    return said


def test_installed_versions_are_read_from_dpkg() -> None:
    state = fact(Packages, names=("dpkg", ABSENT))
    assert list(state.installed) == ["dpkg"]
    assert not state.interrupted


def test_packages_that_are_there_need_nothing(calls: Path) -> None:
    version = fact(Packages, names=("dpkg",)).installed["dpkg"]
    assert run(locked_packages, names=("dpkg",), versions={}).commands == 0
    assert run(locked_packages, names=("dpkg",), versions={"dpkg": version}).commands == 0
    assert asked(calls) == []


def test_a_missing_package_and_a_wrong_version_are_one_transaction(calls: Path) -> None:
    done = run(locked_packages, names=("dpkg", "tar", ABSENT), versions={"dpkg": "1.0"})
    assert done.succeeded
    assert asked(calls) == [
        f"simulate install dpkg=1.0 {ABSENT}",
        f"install dpkg=1.0 {ABSENT}",
    ]
    simulated, installed = calls.read_text().splitlines()
    assert installed.startswith("1 ")  # policy-rc.d keeps services from starting
    assert "--allow-downgrades" in installed
    assert "--no-install-recommends" in installed
    assert "-o DPkg::Lock::Timeout=600" in simulated


def test_the_lists_are_refreshed_only_when_they_do_not_know_the_version(calls: Path) -> None:
    run(locked_packages, names=("unknown",), versions={"unknown": "2.0"})
    assert asked(calls) == [
        "simulate install unknown=2.0",
        "update",
        "install unknown=2.0",
    ]


def test_an_interrupted_dpkg_is_finished_first(calls: Path) -> None:
    programs = {
        "dpkg": f'echo "dpkg $*" >> {calls}',
        "dpkg-query": 'case "$*" in *Package*) exec /usr/bin/dpkg-query "$@";; '
        "*) printf 'installed\\nhalf-configured\\nconfig-files\\n';; esac",
    }
    for name, script in programs.items():
        double = calls.parent / "bin" / name
        double.write_text(f"#!/bin/sh\n{script}\n")
        double.chmod(double.stat().st_mode | stat.S_IXUSR)
    assert run(locked_packages, names=("tar",), versions={}).succeeded
    first, second = calls.read_text().splitlines()
    assert first.startswith("dpkg --configure -a")
    assert second.endswith("--fix-broken install")
