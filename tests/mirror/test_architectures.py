"""Nodes of two architectures: each kind gets the packages of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lab.standins.package import Package
from lockstep.__main__ import main
from lockstep.catalog import os as operating_systems
from lockstep.mirror import sources
from tests.lab import vendors_rpms
from tests.mirror import rpm_site, site
from tests.mirror.site import description, inventory, signing

LOCAL = ("--archive", "none", "--lock", "none")
KEY = Path(__file__).resolve().parents[2] / "inventories/keys/example.net.asc"


@dataclass(frozen=True)
class Arm(Package):
    """A package of arm64."""

    @property
    @override
    def control(self) -> str:
        return super().control.replace("Architecture: amd64", "Architecture: arm64")


def mixed(release: str, uris: dict[str, str], key: str) -> dict[str, Any]:
    """A cluster whose workers have arm64, with a repository for each architecture."""
    found = description(
        repositories=[
            {
                "name": name,
                "uri": uri,
                "suite": "/",
                "key": key,
                "architectures": [architecture],
            }
            for architecture, (name, uri) in zip(
                ("x86_64", "arm64"), uris.items(), strict=True
            )
        ]
    )  # fmt: skip
    del found["hardware"]["hgx"]["gpu"]
    found["hardware"]["hgx"]["architecture"] = "arm64"
    found["os"]["release"] = release
    return found


def architectures(said: str) -> dict[str, set[str]]:
    """Package -> the architectures of its files in a snapshot."""
    found: dict[str, set[str]] = {}
    for one in json.loads(said)["packages"]:
        found.setdefault(one["name"], set()).add(one["architecture"])
    return found


@pytest.mark.skipif(bool(site.MISSING), reason=f"not installed: {site.MISSING}")
def test_apt_resolves_each_architecture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with signing() as signer:
        uris = {name: f"file:{tmp_path}/{name}/" for name in ("plain", "arm")}
        wanted = mixed("debian_13", uris, signer.key)
        listed = site.packages(wanted)
        signer.flat(listed, tmp_path / "plain")
        signer.flat([Arm(one.name, one.version) for one in listed], tmp_path / "arm")
    path = inventory(tmp_path, wanted)
    assert main(["mirror", path, str(tmp_path / "snapshot"), "--make", *LOCAL, "--json", "-"]) == 0
    found = architectures(capsys.readouterr().out)
    assert (found["slurmd"], found["slurmctld"]) == ({"arm64"}, {"amd64"})
    assert found["munge"] == {"amd64", "arm64"}
    for folder in ("plain", "arm"):
        assert list((tmp_path / "snapshot" / folder).glob("munge_*.deb"))
    # The options name the architecture, too.
    (tmp_path / "archive.sources").write_text("")
    words = ["mirror", path, "--check", "--archive", f"{tmp_path}/archive.sources"]
    assert main(words) == 3
    said = capsys.readouterr().err
    assert "where RELEASE is one of debian_13, debian_13/arm64" in said


@pytest.mark.skipif(bool(rpm_site.MISSING), reason=f"not installed: {rpm_site.MISSING}")
def test_dnf_resolves_each_architecture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uris = {name: f"file://{tmp_path}/{name}/repository/" for name in ("plain", "arm")}
    wanted = mixed("rocky_9", uris, KEY.read_text())
    listed = rpm_site.rpms(wanted)
    vendors_rpms.build(tmp_path / "plain", listed, drivers=(), architecture="x86_64")
    vendors_rpms.build(tmp_path / "arm", listed, drivers=(), architecture="aarch64")
    path = inventory(tmp_path, wanted)
    assert main(["mirror", path, "--check", *LOCAL, "--json", "-"]) == 0
    found = architectures(capsys.readouterr().out)
    assert (found["slurm-slurmd"], found["slurm-slurmctld"]) == ({"aarch64"}, {"x86_64"})
    # A repository of the other architecture has nothing for a node.
    for one in wanted["software"]["repositories"]:
        one["uri"] = uris["plain"]
    assert main(["mirror", inventory(tmp_path, wanted), "--check", *LOCAL]) == 1
    said = capsys.readouterr().out
    assert "ERROR slurm-slurmd: no repository has this package (asked: arm)\n" in said
    assert "slurmctld" not in said


@pytest.mark.parametrize(
    ("release", "architecture", "machine", "listed"),
    [
        ("debian_13", "arm64", "x86_64", True),
        ("ubuntu_24_04", "x86_64", "x86_64", True),
        # ports.ubuntu.com has it, which this machine does not list.
        ("ubuntu_24_04", "arm64", "x86_64", False),
        ("ubuntu_24_04", "arm64", "aarch64", True),
        ("rocky_9", "arm64", "x86_64", True),
    ],
)
def test_the_archive_of_this_machine_has_the_architecture(
    release: str, architecture: str, machine: str, listed: bool, tmp_path: Path
) -> None:
    one = operating_systems.load(release)
    (tmp_path / "os-release").write_text(f'ID={one.id}\nVERSION_ID="{one.version_id}"\n')
    for folder in ("apt", "yum.repos.d"):
        (tmp_path / folder).mkdir()
    (tmp_path / "apt/sources.list").write_text("deb http://a/ suite main\n")
    (tmp_path / "yum.repos.d/lockstep.repo").touch()
    if one.family == "rhel":
        assert sources.of_this_machine(one, architecture, tmp_path, machine) is None
        (tmp_path / "yum.repos.d/rocky.repo").touch()
    found = sources.of_this_machine(one, architecture, tmp_path, machine)
    assert (found is not None) is listed
