"""apt resolves the driver of Ubuntu's archive before a node is touched, or says what is missing.

The packages have the names, versions and dependencies of noble-updates, without those of the C
library. They were read with ``apt-cache show`` on 2026-11-24.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from lab.standins.package import Package
from lockstep.__main__ import main
from lockstep.commands.mirror import _bytes
from lockstep.mirror import apt, needs, sources
from tests.mirror import site
from tests.mirror.site import Signer, description, inventory, software

pytestmark = pytest.mark.skipif(bool(site.MISSING), reason=f"not installed: {site.MISSING}")
DRIVER = "595.91.07"
REVISION = f"{DRIVER}-0ubuntu0.24.04.1"
COMMON = "nvidia-kernel-common-595-server"


@dataclass(frozen=True)
class Exclusive(Package):
    """A package that must be the only one of its kind, as Ubuntu's drivers are."""

    conflicts: str = ""

    @property
    @override
    def control(self) -> str:
        return super().control + (f"Conflicts: {self.conflicts}\n" if self.conflicts else "")


def driver(name: str, depends: str = "", provides: str = "", conflicts: str = "") -> Package:
    return Exclusive(name, REVISION, depends=depends, provides=provides, conflicts=conflicts)


ARCHIVE = (
    driver("libnvidia-cfg1-595-server", f"{COMMON}-{DRIVER}", "libnvidia-cfg1-any"),
    driver("libnvidia-compute-595-server", f"{COMMON}-{DRIVER}", "libnvidia-compute"),
    driver(
        "nvidia-compute-utils-595-server",
        "libnvidia-compute-595-server",
        "nvidia-compute-utils, nvidia-persistenced",
        "nvidia-compute-utils, nvidia-persistenced",
    ),
    driver(
        "nvidia-utils-595-server",
        f"{COMMON}-{DRIVER}, libnvidia-compute-595-server (>= {DRIVER})",
        "nvidia-smi, nvidia-utils",
        "nvidia-smi, nvidia-utils",
    ),
    driver(
        "nvidia-dkms-595-server-open",
        f"dkms, nvidia-kernel-source-595-server-open (<= {DRIVER}-1), "
        f"nvidia-kernel-source-595-server-open (>= {DRIVER}), "
        f"{COMMON} (<= {DRIVER}-1), {COMMON} (>= {DRIVER})",
        "nvidia-dkms-kernel",
        "nvidia-dkms-kernel",
    ),
    driver("nvidia-kernel-source-595-server-open", "", "nvidia-kernel-source"),
    driver(
        COMMON,
        f"nvidia-firmware-595-server-{DRIVER}",
        f"nvidia-kernel-common, {COMMON}-{DRIVER}",
        "nvidia-kernel-common",
    ),
    driver(f"nvidia-firmware-595-server-{DRIVER}"),
    Package("dkms", "3.0.11-1ubuntu13"),
)


def wanted(uri: str, key: str, release: str = "ubuntu_24_04", **stack: Any) -> dict[str, Any]:
    found = description(**software(uri, key))
    found["os"]["release"] = release
    found["software"]["nvidia"] = {"packaging": "ubuntu", "driver": DRIVER, **stack}
    if release == "ubuntu_22_04":
        found["hardware"]["hgx"]["cgroup"] = found["hardware"]["plain"]["cgroup"] = "none"
    return found


def checked(
    tmp_path: Path,
    signer: Signer,
    packages: tuple[Package, ...],
    without: str = "",
    **stack: Any,
) -> tuple[int, dict[str, Any]]:
    """The exit status of ``lockstep mirror --check`` for a repository with these packages."""
    folder = tmp_path / "vendor"
    found = wanted(f"file:{folder}/", signer.key, **stack)
    listed = [one for one in site.packages(found, *packages) if one.name != without]
    signer.flat(listed, folder)
    words = ("--check", "--archive", "none", "--lock", "none")
    return main(["mirror", inventory(tmp_path, found), *words]), found


@pytest.mark.parametrize("release", ["ubuntu_22_04", "ubuntu_24_04"])
def test_the_whole_set_of_ubuntus_archive_resolves(
    release: str, tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = checked(tmp_path, signer, ARCHIVE, release=release)
    assert (status, capsys.readouterr().out.partition(":")[0]) == (
        0,
        "every package of 5 nodes is in a repository",
    )
    kinds = needs.kinds(site.plan_of(found))
    (worker,) = (kind for kind in kinds if "worker1" in kind.nodes)
    root = apt.AptRoot(tmp_path / "root", sources.declared(worker))
    root.update()
    files = {deb.package: deb.version for deb in root.resolve(worker)}
    # The dependencies that Lockstep only pins come with the planned version, and no kernel does.
    assert files[COMMON] == files[f"nvidia-firmware-595-server-{DRIVER}"] == REVISION
    assert not [name for name in files if name.startswith(("linux-image", "linux-modules"))]


def test_a_newer_driver_in_the_archive_does_not_break_the_pinned_one(
    tmp_path: Path, signer: Signer
) -> None:
    """Without the pin of a dependency, apt would choose the newer one, which excludes the rest."""
    newer = Exclusive(COMMON, "595.99.01-0ubuntu0.24.04.1", provides="nvidia-kernel-common")
    folder = tmp_path / "vendor"
    found = wanted(f"file:{folder}/", signer.key)
    signer.flat([*site.packages(found, *ARCHIVE), newer], folder)
    (worker,) = (k for k in needs.kinds(site.plan_of(found)) if "worker1" in k.nodes)
    root = apt.AptRoot(tmp_path / "root", sources.declared(worker))
    root.update()
    assert {deb.version for deb in root.resolve(worker) if deb.package == COMMON} == {REVISION}


def test_a_missing_dependency_is_named_with_the_next_step(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = checked(tmp_path, signer, ARCHIVE, without=COMMON)
    said = capsys.readouterr().err
    assert status == 2
    assert "apt cannot install the packages of worker[1-4]: " in said
    assert f"nvidia-dkms-595-server-open : Depends: {COMMON} " in said
    assert "next       declare a repository that has the missing dependencies" in said


def test_a_missing_package_of_the_driver_is_named_with_its_field(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _ = checked(tmp_path, signer, ARCHIVE, without="nvidia-utils-595-server")
    said = capsys.readouterr().out
    assert status == 1
    assert f"ERROR nvidia-utils-595-server {DRIVER}-*: no repository has this package" in said
    assert "nodes      worker[1-4]" in said
    assert "software.nvidia.driver" in said


def test_packages_that_exclude_each_other_are_found(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    """DCGM of another repository that insists on NVIDIA's own persistence daemon."""
    dcgm = Package(
        "datacenter-gpu-manager-4-core", "1:4.4.1-1", depends="nvidia-persistenced (>= 580)"
    )
    theirs = Package("nvidia-persistenced", "595.91.07-1ubuntu1")
    status, _ = checked(tmp_path, signer, (*ARCHIVE, dcgm, theirs), dcgm="4.4.1")
    said = capsys.readouterr().err
    assert status == 2
    assert "nvidia-persistenced" in said
    assert "nvidia-compute-utils-595-server" in said


def test_sizes_are_readable() -> None:
    assert [_bytes(n) for n in (999, 2_400_000, 380_000_000, 2_400_000_000)] == [
        "999 B",
        "2 MB",
        "380 MB",
        "2.4 GB",
    ]
