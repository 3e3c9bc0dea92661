"""The whole set of prod.py's nodes resolves, and what is missing or conflicts is found before.

apt and dnf answer, from signed lists with the vendors' names and dependency lines
(``tests.mirror.vendors``). For each of three releases: everything resolves; a package is missing; a
dependency is missing; two packages conflict.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lockstep.__main__ import main
from lockstep.catalog import nvidia
from lockstep.mirror.needs import kinds
from tests.lab import vendors_rpms
from tests.mirror import rpm_site, site, vendors
from tests.mirror.site import Signer, inventory
from tests.mirror.vendors import Stanza, description
from tests.plan.on_release import ANY_KEY

ARCHIVES = ("debian_13", "ubuntu_24_04")
DRIVERS = {"debian_13": "590.48.01", "ubuntu_24_04": vendors.UBUNTUS_DRIVER, "rocky_9": "590.48.01"}


@dataclass(frozen=True)
class Asked:
    """The answer of ``lockstep mirror --check``."""

    status: int
    said: str


def asked(
    folder: Path, wanted: dict[str, Any], capsys: pytest.CaptureFixture[str], *words: str
) -> Asked:
    local = ("--archive", "none", "--lock", "none")
    status = main(["mirror", inventory(folder, wanted), "--check", *local, *words])
    return Asked(status, "".join(capsys.readouterr()))


@pytest.fixture(scope="module")
def rocky(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The repository of RPMs and its key."""
    folder = tmp_path_factory.mktemp("rocky")
    wanted = description("rocky_9", "file:///none/", ANY_KEY)
    listed = vendors.rpms(wanted)
    key = vendors_rpms.build(folder, listed, drivers=(DRIVERS["rocky_9"],))
    return folder / "repository", key.read_text()


def of_apt(
    release: str,
    folder: Path,
    signer: Signer,
    *more: Stanza,
    without: str = "",
    packaging: str = "",
) -> dict[str, Any]:
    """The description, with a repository that has all of its packages but one."""
    wanted = description(release, f"file:{folder}/vendor/", signer.key, packaging)
    replaced = {one.name for one in more}
    found = [one for one in vendors.listed(wanted) if one.name not in replaced]
    assert not without or without in {one.name for one in found}
    kept = [one for one in (*found, *more) if one.name != without]
    vendors.publish(kept, folder / "vendor", signer)
    return wanted


def of_dnf(
    folder: Path, rocky: tuple[Path, str], without: str = "", **versions: str
) -> dict[str, Any]:
    """The description, with a repository that has all of its packages but one."""
    repository, key = rocky
    if without:
        repository = shutil.copytree(repository, folder / "repository", copy_function=os.link)
        (package,) = repository.glob(f"noarch/{without}-[0-9]*.rpm")
        package.unlink()
        listed = vendors.rpms(description("rocky_9", "file:///none/", ANY_KEY))
        shutil.rmtree(repository / "repodata")
        vendors_rpms.index(repository, listed, (DRIVERS["rocky_9"],))
    wanted = description("rocky_9", f"file://{repository}/", key)
    wanted["software"]["versions"].update(versions)
    return wanted


def names(said: str) -> set[str]:
    return {one["name"] for one in json.loads(said)["packages"]}


def versions(said: str) -> dict[str, str]:
    return {one["name"]: one["version"] for one in json.loads(said)["packages"]}


def every_name(wanted: dict[str, Any]) -> set[str]:
    return {one.package for kind in kinds(site.plan_of(wanted)) for one in kind.packages}


needs_apt = pytest.mark.skipif(bool(site.MISSING), reason=f"not installed: {site.MISSING}")
needs_dnf = pytest.mark.skipif(bool(rpm_site.MISSING), reason=f"not installed: {rpm_site.MISSING}")


@needs_apt
@pytest.mark.parametrize("release", ARCHIVES)
def test_the_whole_set_resolves_by_apt(
    release: str, tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = of_apt(release, tmp_path, signer)
    found = asked(tmp_path, wanted, capsys, "--json", "-")
    assert found.status == 0, found.said
    assert names(found.said) > every_name(wanted)
    # DOCA-OFED's packages take the place of the archive's with the same names.
    assert versions(found.said)["rdma-core"] == vendors.DOCA_LIBRARIES
    assert versions(found.said)["perftest"] == vendors.DOCA_LIBRARIES
    assert "mlnx-ofed-kernel-dkms" in names(found.said)
    # What the packages need, by their lines.
    assert {"slurm-wlm-basic-plugins", "slurm-wlm-mysql-plugin", "libmunge2", "dkms"} <= names(
        found.said
    )


@needs_apt
def test_nvidias_set_for_ubuntu_resolves_and_brings_no_later_driver(
    tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = "590.48.01"
    brought = nvidia.NVIDIA_UBUNTU["driver"].brought
    both = [
        Stanza(name, f"{version}-1ubuntu1", {})
        for name in brought
        for version in (driver, "615.71.09")
    ]
    wanted = of_apt("ubuntu_24_04", tmp_path, signer, *both, packaging="nvidia")
    assert wanted["software"]["nvidia"]["packaging"] == "nvidia"
    found = asked(tmp_path, wanted, capsys, "--json", "-")
    assert found.status == 0, found.said
    assert names(found.said) > every_name(wanted)
    chosen = versions(found.said)
    there = [name for name in brought if name in chosen]
    assert {"nvidia-firmware", "nvidia-kernel-source-open", "libnvidia-gpucomp"} <= set(there)
    assert {chosen[name].partition("-")[0] for name in there} == {driver}


@needs_dnf
def test_the_whole_set_resolves_by_dnf(
    tmp_path: Path, rocky: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = of_dnf(tmp_path, rocky)
    found = asked(tmp_path, wanted, capsys, "--json", "-")
    assert found.status == 0, found.said
    assert names(found.said) > every_name(wanted)
    assert {"munge-libs", "dkms", "kernel-devel-matched", "fakeroot"} <= names(found.said)
    chosen = versions(found.said)
    assert chosen["slurm-slurmd"] == f"{vendors_rpms.SLURM}-1.el9"
    assert chosen["kmod-nvidia-open-dkms"] == f"3:{DRIVERS['rocky_9']}-1.el9"
    assert chosen["rdma-core"] == chosen["libibverbs-utils"] == "2601.0.7-1.el9"
    assert chosen["mlnx-ofa_kernel-dkms"] == "26.01-1.el9"


@needs_apt
@pytest.mark.parametrize(
    ("release", "package", "field"),
    [
        ("debian_13", "nvidia-fabricmanager", "software.nvidia.fabric_manager"),
        ("debian_13", "slurmdbd", "software.versions.slurmdbd"),
        ("debian_13", "doca-ofed", "software.rdma.version"),
        ("ubuntu_24_04", "nvidia-fabricmanager-595", "software.nvidia.fabric_manager"),
    ],
)
def test_a_missing_package_is_found_by_apt(
    release: str,
    package: str,
    field: str,
    tmp_path: Path,
    signer: Signer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = asked(tmp_path, of_apt(release, tmp_path, signer, without=package), capsys)
    assert found.status == 1
    (line,) = (one for one in found.said.splitlines() if one.startswith("ERROR"))
    assert line.startswith(f"ERROR {package} ")
    assert line.endswith(": no repository has this package (asked: site)")
    assert f", or leave out {field}. {release}'s own archive was not asked" in found.said


@needs_dnf
def test_a_missing_package_is_found_by_dnf(
    tmp_path: Path, rocky: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(tmp_path, of_dnf(tmp_path, rocky, without="nvidia-fabricmanager"), capsys)
    assert found.status == 1
    assert found.said.startswith(
        "ERROR nvidia-fabricmanager 590.48.01-*: no repository has this package (asked: site)\n"
        "  nodes      worker[01-16]\n"
        "  available  no version\n"
    )
    assert ", or leave out software.nvidia.fabric_manager. " in found.said
    assert found.said.count("ERROR") == 1


@needs_apt
@pytest.mark.parametrize("release", ARCHIVES)
def test_a_missing_dependency_is_found_by_apt(
    release: str, tmp_path: Path, signer: Signer, capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(tmp_path, of_apt(release, tmp_path, signer, without="libmunge2"), capsys)
    assert found.status == 2
    assert "munge : Depends: libmunge2 (= " in found.said
    assert "next       declare a repository that has the missing dependencies" in found.said


@needs_dnf
def test_a_missing_dependency_is_found_by_dnf(
    tmp_path: Path, rocky: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(tmp_path, of_dnf(tmp_path, rocky, without="munge-libs"), capsys)
    assert found.status == 2
    assert "nothing provides munge-libs = 0.5.16-1.el9 needed by munge-" in found.said
    assert "next       declare a repository that has the missing dependencies" in found.said


@needs_apt
@pytest.mark.parametrize(
    ("release", "other", "said"),
    [
        # A build of Slurm that is later than the archive's plugin for NVML.
        (
            "debian_13",
            "slurm",
            "slurm-wlm-nvml-plugin : Depends: ",
        ),
        # DCGM that insists on NVIDIA's own daemon, beside Ubuntu's driver, which excludes it.
        ("ubuntu_24_04", "dcgm", "nvidia-persistenced"),
    ],
)
def test_packages_that_conflict_are_found_by_apt(
    release: str,
    other: str,
    said: str,
    tmp_path: Path,
    signer: Signer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if other == "slurm":
        later = "24.11.7-1"
        old = {one.name: one for one in vendors.archive(release)}
        parts = [name for name, one in old.items() if one.version == old["slurmd"].version]
        more = [
            replace(
                old[name],
                version=later,
                fields={
                    field: text.replace(old["slurmd"].version, later)
                    for field, text in old[name].fields.items()
                },
            )
            for name in parts
        ]
        wanted = of_apt(release, tmp_path, signer, *more)
        locked = wanted["software"]["versions"]
        locked.update({name: later for name in locked if name.startswith("slurm")})
    else:
        more = [
            Stanza("nvidia-persistenced", "595.91.07-1ubuntu1", {}),
            Stanza(
                "datacenter-gpu-manager-4-core",
                "1:4.6.0-1",
                {"Depends": "nvidia-persistenced (>= 580)"},
            ),
        ]
        wanted = of_apt(release, tmp_path, signer, *more)
    found = asked(tmp_path, wanted, capsys)
    assert found.status == 2, found.said
    assert "apt cannot install the packages of worker[01-16]: " in found.said
    assert said in found.said


@needs_dnf
def test_a_library_that_is_locked_at_the_archives_version_conflicts_with_doca_ofed(
    tmp_path: Path, rocky: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = asked(tmp_path, of_dnf(tmp_path, rocky, **{"rdma-core": "54.0-1.el9"}), capsys)
    assert found.status == 2
    assert "doca-ofed-3.3.0-1.el9.noarch" in found.said
    assert "requires rdma-core = 2601.0.7-1.el9" in found.said


@needs_dnf
def test_packages_that_conflict_are_found_by_dnf(
    tmp_path: Path, rocky: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Pyxis was built for another Slurm than the locked one; the repository has both."""
    later = dict.fromkeys(vendors.SLURMS, f"{vendors.LATER_SLURM}-1.el9")
    found = asked(tmp_path, of_dnf(tmp_path, rocky, **later), capsys)
    assert found.status == 2
    assert "dnf cannot install the packages of " in found.said
    assert "nvslurm-plugin-pyxis-0.24.0-1.sl2505.el9.noarch" in found.said
    assert f" requires slurm = {vendors_rpms.SLURM}-1.el9, but none of the" in found.said
