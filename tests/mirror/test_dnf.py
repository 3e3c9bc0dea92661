"""``lockstep mirror`` against real signed repositories of RPMs, with the real dnf."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lockstep.__main__ import main
from lockstep.mirror import dnf
from tests.lab import vendors_rpms
from tests.lab.dnf_root import Root
from tests.lab.vendors_rpms import Rpm
from tests.mirror import rpm_site
from tests.mirror.rpm_site import LIBRARY, MUNGE, files, on_rocky, rpms
from tests.mirror.site import DRIVER, inventory, plan_of

pytestmark = pytest.mark.skipif(bool(rpm_site.MISSING), reason=f"not installed: {rpm_site.MISSING}")
LOCAL = ("--archive", "none", "--lock", "none")
KERNEL = "5.14.0-503.el9.noarch"
KERNELS = (
    Rpm("dkms", "3.2.2", lines=("Requires: kernel-devel-matched",)),
    *(
        rpm
        for release in ("503.el9", "570.el9")
        for rpm in (
            Rpm("kernel-core", "5.14.0", release),
            Rpm("kernel-devel", "5.14.0", release),
            Rpm("kernel-devel-matched", "5.14.0", release, (
                f"Requires: kernel-devel = 5.14.0-{release}",
                f"Requires: kernel-core = 5.14.0-{release}",
            )),
        )
    ),
)  # fmt: skip
MODULES = Rpm("kmod-nvidia-open-dkms", DRIVER, lines=("Epoch: 3", "Requires: dkms"))


KEYS = Path(__file__).resolve().parents[2] / "inventories/keys"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The vendor's repository and its key; munge there depends on a library of no role."""
    folder = tmp_path_factory.mktemp("vendor")
    wanted = on_rocky("file:///none/", (KEYS / "example.net.asc").read_text())
    listed = [*rpms(wanted, MUNGE, MODULES), LIBRARY, *KERNELS]
    key = vendors_rpms.build(folder, listed, drivers=(DRIVER,))
    return folder / "repository", key.read_text()


@pytest.fixture
def vendor(original: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy, which a test may change."""
    return shutil.copytree(original[0], tmp_path / "vendor")


@pytest.fixture
def key(original: tuple[Path, str]) -> str:
    return original[1]


def described(tmp_path: Path, vendor: Path, key: str, **changes: Any) -> str:
    return inventory(tmp_path, on_rocky(f"file://{vendor}/", key, **changes))


def built(folder: Path, listed: Sequence[Rpm]) -> tuple[Path, str]:
    key = vendors_rpms.build(folder, listed, drivers=(DRIVER,))
    return folder / "repository", key.read_text()


def test_a_complete_repository_has_everything(
    tmp_path: Path, vendor: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = described(tmp_path, vendor, key)
    assert main(["mirror", path, "--check", *LOCAL, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    versions = {one["name"]: one["version"] for one in document["packages"]}
    assert versions["liblock1"] == "1:2.0-1.el9"
    assert versions["kmod-nvidia-open-dkms"] == f"3:{DRIVER}-1.el9"
    assert document["repositories"][0]["architectures"] == ["x86_64"]
    assert main(["mirror", path, "--check", *LOCAL]) == 0
    said = capsys.readouterr().out
    assert said.startswith("every package of 5 nodes is in a repository")
    assert "not included: kernel headers, with which worker[1-4] build" in said


def test_a_pinned_version_and_its_stream_that_are_gone_are_named_with_the_nearest_ones(
    tmp_path: Path, vendor: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = described(tmp_path, vendor, key, driver="575.57.08")
    assert main(["mirror", path, "--check", *LOCAL]) == 1
    said = capsys.readouterr().out
    hint = (
        "rocky_9's own archive was not asked: --archive FILE names a file of dnf.conf(5) (.repo), "
        "or a folder of such files, that lists it\n"
    )
    assert (
        "ERROR libnvidia-ml 575.57.08-*: no repository has version 575.57.08-* (asked: site)\n"
        "  nodes      worker[1-4]\n"
        "  available  580.95.05-1.el9 (site)\n"
        "  next       nearest version: 580.95.05-1.el9. Change software.nvidia.driver, or declare "
        f"a mirror that still has 575.57.08-*. {hint}"
    ) in said
    assert (
        "ERROR module nvidia-driver:575-open: no repository has this module stream (asked: site)\n"
        "  nodes      worker[1-4]\n"
        "  available  580-open (site), 580-dkms (site)\n"
        "  next       nearest stream: 580-open. Change software.nvidia.driver, whose branch is the "
        "stream, or declare a repository that has nvidia-driver:575-open (software.repositories). "
    ) in said
    assert "munge" not in said


def test_what_is_nowhere_is_named_before_a_node_is_touched(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = on_rocky(f"file://{tmp_path}/made/repository/", key)
    listed = [one for one in rpms(wanted, MUNGE) if one.name != "chrony"]
    _, own = built(tmp_path / "made", listed)
    wanted["software"]["repositories"][0]["key"] = own
    assert main(["mirror", inventory(tmp_path, wanted), "--check", *LOCAL]) == 1
    said = capsys.readouterr().out
    assert "ERROR chrony: no repository has this package (asked: site)\n" in said
    assert "(software.repositories), or leave out role time_sync" in said
    wanted["unmanaged"] = ["time_sync"]
    assert main(["mirror", inventory(tmp_path, wanted), "--check", *LOCAL]) == 2
    said = capsys.readouterr().err
    assert "dnf cannot install the packages of head1,worker[1-4]: " in said or "of head1: " in said
    assert "nothing provides liblock1 needed by munge-0.5.16-1.el9.noarch" in said
    assert "declare a repository that has the missing dependencies" in said


def test_nodes_can_use_the_snapshot_and_a_second_run_fetches_nothing(
    tmp_path: Path, vendor: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (vendor / "repodata/repomd.xml.asc").write_text("a signature")
    path, folder = described(tmp_path, vendor, key), tmp_path / "snapshot"
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    assert "rocky_9  site/  /      -" in capsys.readouterr().out
    before = files(folder)
    # The vendor's lists are kept as they are, with their signature and the module streams.
    for name in ("repomd.xml", "repomd.xml.asc"):
        assert (folder / "site/repodata" / name).read_bytes() == (
            vendor / "repodata" / name
        ).read_bytes()
    assert [name for name in before if "modules" in name]
    assert "site/noarch/liblock1-2.0-1.el9.noarch.rpm" in before
    # Of the packages, only what nodes need.
    assert "site/noarch/kmod-nvidia-open-dkms-580.95.05-1.el9.noarch.rpm" in before
    assert not [name for name in before if "503.el9" in name]

    # The vendor's signatures and key are kept, so only the address changes. The vendor is gone.
    shutil.rmtree(vendor)
    mirrored = described(tmp_path, folder / "site", key, frozen=True)
    assert main(["mirror", mirrored, "--check", *LOCAL]) == 0

    shutil.copytree(folder / "site", vendor)
    capsys.readouterr()
    path = described(tmp_path, vendor, key)
    assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
    assert ", 0 fetched (0 B)" in capsys.readouterr().out
    assert files(folder) == before


@pytest.mark.skipif(os.getuid() != 0, reason="only root installs packages")
def test_dnf_installs_from_the_snapshot_while_the_vendor_is_gone(
    tmp_path: Path, vendor: Path, key: str
) -> None:
    path, folder = described(tmp_path, vendor, key), tmp_path / "snapshot"
    assert main(["mirror", path, str(folder), "--make", *LOCAL, "--kernel", KERNEL]) == 0
    shutil.rmtree(vendor)
    plan = plan_of(on_rocky(f"file://{folder}/site/", key, frozen=True))
    worker = plan.nodes["worker1"]
    root = Root.made(tmp_path / "root")
    root.write(worker)
    written = (root.folder / "etc/yum.repos.d/lockstep.repo").read_text()
    assert "\ngpgcheck=1\n" in written
    assert "\nmetadata_expire=1\ndeltarpm=0\n" in written
    # The node has the kernel for which it builds the driver.
    done = root.run(f"dnf -y install kernel-core-{KERNEL}")
    assert done.returncode == 0, done.stderr
    assert root.install(worker) == ""
    there = root.run("rpm -qa --qf '%{NAME}-%{VERSION}-%{RELEASE} '").stdout.split()
    assert {
        "munge-0.5.16-1.el9",
        f"kmod-nvidia-open-dkms-{DRIVER}-1.el9",
        "kernel-devel-5.14.0-503.el9",
    } <= set(there)
    # A package that somebody replaced in the snapshot is refused.
    (package,) = folder.glob("site/noarch/slurm-slurmd-*.rpm")
    unsign(package)
    vendors_rpms.index(folder / "site", [], [])
    other = Root.made(tmp_path / "other")
    other.write(worker)
    (other.folder / "etc/dnf/plugins/versionlock.list").write_text("")
    done = other.run("dnf -y install slurm-slurmd")
    assert done.returncode != 0
    assert "is not signed" in done.stdout + done.stderr


def unsign(package: Path) -> None:
    subprocess.run(["rpmsign", "--delsign", package], check=True, capture_output=True)


@pytest.mark.parametrize("fault", ["unsigned", "other key", "changed", "missing", "index"])
def test_what_cannot_be_verified_leaves_the_folder_as_it_was(
    fault: str, tmp_path: Path, vendor: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "snapshot"
    package = vendor / "noarch/munge-0.5.16-1.el9.noarch.rpm"
    good = package.read_bytes()
    if fault == "unsigned":
        unsign(package)
        vendors_rpms.index(vendor, [], [])
    elif fault == "changed":
        package.write_bytes(good + b"x")
    elif fault == "missing":
        package.unlink()
    elif fault == "index":
        (index,) = vendor.glob("repodata/*-other.xml.*")
        index.write_bytes(b"?")
    declared = (KEYS / "example.net.asc").read_text() if fault == "other key" else key
    wanted = on_rocky(f"file://{vendor}/", declared)
    if fault == "unsigned":
        del wanted["software"]["nvidia"]
    assert main(["mirror", inventory(tmp_path, wanted), str(folder), "--make", *LOCAL]) == 2
    said = capsys.readouterr().err
    what = "the index " if fault == "index" else "munge 0.5.16-1.el9"
    assert f"ERROR site: {what}" in said
    assert "the repository lists it, but it cannot be fetched: " in said
    assert {
        "unsigned": "none of the declared keys has signed it. rpmkeys says: munge-0.5.16-1",
        "other key": "NOKEY",
        "changed": "its SHA-256 is ",
        "missing": "Couldn't open file",
        "index": "its SHA-256 is ",
    }[fault] in said
    assert [one.name for one in folder.iterdir()] == [".incomplete"]
    if fault == "missing":
        package.write_bytes(good)
        path = described(tmp_path, vendor, key)
        assert main(["mirror", path, str(folder), "--make", *LOCAL]) == 0
        assert ", 1 fetched" in capsys.readouterr().out


def test_a_repository_that_is_not_there(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = described(tmp_path, tmp_path / "nowhere", key)
    assert main(["mirror", path, "--check", *LOCAL]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"ERROR site (file://{tmp_path}/nowhere/ /): there is no list of ")
    assert "  next       correct `uri` or `suite` of the repository, or copy it again\n" in said


def test_headers_of_the_kernels_are_included_in_their_own_version(
    tmp_path: Path, vendor: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = described(tmp_path, vendor, key)
    command = ["mirror", path, "--check", *LOCAL]
    assert main([*command, "--kernel", KERNEL, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["packages"]
    kernels = {one["name"]: one["version"] for one in found if one["name"].startswith("kernel")}
    assert kernels == dict.fromkeys(
        ("kernel-core", "kernel-devel", "kernel-devel-matched"), "5.14.0-503.el9"
    )
    assert main([*command, "--kernel", "5.14.0-1.el9.x86_64"]) == 1
    said = capsys.readouterr().out
    assert said.startswith(
        "ERROR --kernel 5.14.0-1.el9.x86_64: no repository has kernel-devel-5.14.0-1.el9.x86_64 "
        "(asked: site)\n"
        "  nodes      worker[1-4]\n"
        "  available  kernel-devel-5.14.0-570.el9.noarch, kernel-devel-5.14.0-503.el9.noarch\n"
    )


def test_the_archive_is_a_file_of_repositories(
    tmp_path: Path, vendor: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "distribution.asc").write_text(key)
    listed = tmp_path / "rocky.repo"
    text = (
        f"[appstream]\nname=AppStream\nbaseurl=file://{tmp_path}/vendor/\nenabled=1\n"
        f"gpgcheck=1\ngpgkey=file://{tmp_path}/distribution.asc\n\n"
        "[source]\nname=Source\nbaseurl=file:///nowhere/\nenabled=0\n"
    )
    listed.write_text(text)
    wanted = on_rocky("", key)
    del wanted["software"]["repositories"], wanted["software"]["nvidia"]
    path = inventory(tmp_path, wanted)
    options = ("--archive", str(listed), "--lock", "none")
    assert main(["mirror", path, str(tmp_path / "snapshot"), "--make", *options]) == 0
    assert (tmp_path / "snapshot/appstream/repodata/repomd.xml").is_file()
    listed.write_text(text.replace("distribution.asc", "absent.asc"))
    capsys.readouterr()
    assert main(["mirror", path, "--check", *options]) == 2
    said = capsys.readouterr().err
    assert f"its key file://{tmp_path}/absent.asc cannot be read" in said
    listed.write_text(text.replace("gpgkey", "#"))
    assert main(["mirror", path, "--check", *options]) == 2
    assert "no gpgkey: the signatures of its packages cannot be verified" in capsys.readouterr().err
    assert main(["mirror", path, "--check", "--archive", str(tmp_path)]) == 2  # the folder of it
    assert main(["mirror", path, "--check", "--archive", "/nowhere"]) == 3
    assert "  expected  a file of dnf.conf(5), such as rocky.repo" in capsys.readouterr().err


def test_a_machine_without_dnf_is_told_the_package(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = described(tmp_path, tmp_path / "vendor", key)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["mirror", path, "--check", *LOCAL]) == 3
    said = capsys.readouterr().err
    assert said.startswith(
        "ERROR dnf: not on this machine\n  next      install dnf 4: the packages"
    )
    # dnf 5 is no Python program.
    for name in ("dnf", "rpmkeys"):
        (tmp_path / name).write_bytes(b"\x7fELF")
        (tmp_path / name).chmod(0o755)
    assert main(["mirror", path, "--check", *LOCAL]) == 3
    assert "ERROR the Python modules of dnf 4: not on this machine" in capsys.readouterr().err


def test_dnf_without_its_plugin_for_locks_is_refused(
    tmp_path: Path, vendor: Path, key: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    helper = tmp_path / "helper.py"
    helper.write_text(dnf.HELPER.read_text().replace('LOCKS = "versionlock"', 'LOCKS = "absent"'))
    monkeypatch.setattr(dnf, "HELPER", helper)
    assert main(["mirror", described(tmp_path, vendor, key), "--check", *LOCAL]) == 2
    said = capsys.readouterr().err
    assert "ERROR dnf: its plugin versionlock is not on this machine\n" in said
    assert "dnf-plugins-core" in said
