"""Automatic upgrades mean the same on every release: off, or security upgrades only."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from lockstep.files import managed
from lockstep.inventory import planned
from lockstep.plan import NodePlan
from lockstep.spec import Cluster
from tests.plan.on_release import prod_on

TIMERS = {
    "ubuntu_24_04": {"apt-daily.timer", "apt-daily-upgrade.timer"},
    "rocky_9": {"dnf-automatic.timer"},
}
PACKAGES = {"ubuntu_24_04": "unattended-upgrades", "rocky_9": "dnf-automatic"}
SECOND = "dnf-automatic-install.timer"
AUTOMATIC = "/etc/dnf/automatic.conf"
OF_DEBIANS_PACKAGE = """\
Unattended-Upgrade::Origins-Pattern {
        "origin=Debian,codename=${distro_codename},label=Debian";
        "origin=Debian,codename=${distro_codename},label=Debian-Security";
        "origin=Debian,codename=${distro_codename}-security,label=Debian-Security";
};
"""
"""/usr/share/unattended-upgrades/50unattended-upgrades of Debian 13 (2.12), without comments."""


def head(release: str, on: bool) -> NodePlan:
    wanted = prod_on("ubuntu_24_04" if release == "debian_13" else release)
    wanted["os"] |= {"automatic_upgrades": on, "release": release}
    return planned(Cluster.model_validate(wanted)).nodes["head1"]


def text(plan: NodePlan, path: str) -> str:
    (found,) = (one.content.decode() for one in managed(plan, None) if one.path == path)
    return found


@pytest.mark.parametrize("release", TIMERS)
def test_the_package_and_its_timers_are_kept_only_where_they_are_declared(release: str) -> None:
    on, off = head(release, True), head(release, False)
    assert PACKAGES[release] in on.software.packages
    assert PACKAGES[release] not in off.software.packages
    assert TIMERS[release] <= set(on.system.units)
    assert TIMERS[release] <= set(off.system.masked_units)
    assert not TIMERS[release] & {*off.system.units, *on.system.masked_units}
    # It would install everything, whatever the file says.
    for plan in (on, off):
        assert (SECOND in plan.system.masked_units) == (release == "rocky_9")
        assert SECOND not in plan.system.units


def test_the_file_of_dnf_automatic_is_there_only_where_it_is_declared() -> None:
    assert AUTOMATIC in head("rocky_9", True).system.paths("os_settings")
    assert AUTOMATIC not in head("rocky_9", False).system.paths()
    assert AUTOMATIC not in head("ubuntu_24_04", True).system.paths()


def apt_reads(tmp_path: Path, plan: NodePlan) -> dict[str, list[str]]:
    """The settings that apt has after the files of the package and of Lockstep."""
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "50unattended-upgrades").write_text(OF_DEBIANS_PACKAGE)
    (parts / "90lockstep").write_text(text(plan, "/etc/apt/apt.conf.d/90lockstep"))
    main = tmp_path / "apt.conf"
    main.write_text(f'Dir::Etc::parts "{parts}"; Dir::Etc::main "/dev/null";')
    shown = subprocess.run(
        ["apt-config", "dump"], env={"APT_CONFIG": str(main)}, capture_output=True, text=True
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    found: dict[str, list[str]] = {}
    for line in shown.stdout.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, []).append(value.strip('";'))
    return found


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="no apt on this machine")
@pytest.mark.parametrize(("on", "periodic"), [(True, "1"), (False, "0")])
def test_apt_takes_only_the_origin_of_security_upgrades(
    tmp_path: Path, on: bool, periodic: str
) -> None:
    found = apt_reads(tmp_path, head("debian_13", on))
    for what in ("Update-Package-Lists", "Unattended-Upgrade"):
        assert found[f"APT::Periodic::{what}"] == [periodic]
    if on:
        assert [one for one in found["Unattended-Upgrade::Origins-Pattern::"] if one] == [
            "origin=Debian,codename=${distro_codename}-security,label=Debian-Security"
        ]


def has_dnf() -> bool:
    asked = ["/usr/bin/python3", "-c", "import dnf.automatic.main"]
    return Path(asked[0]).exists() and subprocess.run(asked, capture_output=True).returncode == 0


@pytest.mark.skipif(not has_dnf(), reason="dnf is not installed")
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("upgrade_type = security", "upgrade_type = default"),
        ("upgrade_type = security", "upgrade_type = secure"),
        ("apply_updates = yes", "apply_updates = no"),
        ("[commands]", "[command]"),
    ],
)
def test_dnf_automatic_reads_the_file_and_another_meaning_is_refused(
    tmp_path: Path, right: str, wrong: str
) -> None:
    plan = head("rocky_9", True)
    (file,) = (one for _, one in plan.system.files if one.path == AUTOMATIC)
    new = tmp_path / "automatic.conf"
    new.write_text(text(plan, AUTOMATIC).replace(right, wrong))
    command = file.validate.format(new=shlex.quote(str(new)))
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode == 0) == (right == wrong), done.stderr
