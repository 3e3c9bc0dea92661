"""The real dnf and a signed repository: what a deploy of the RHEL family asks of it.

The version of dnf is that of Debian (4.14), which is the one of RHEL 9. It installs into a folder;
no machine of the RHEL family is booted.
"""

import os
import shlex
import shutil
import subprocess
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from lockstep.files import managed
from lockstep.manifest import LeftOver
from lockstep.plan import ClusterPlan
from lockstep.removal import commands
from lockstep.roles.operations.packages import change
from tests.lab import vendors_rpms
from tests.lab.dnf_root import KEY, NOTHING, Root
from tests.plan.example import planned

TOOLS = ("dnf", "createrepo_c", "rpmbuild", "rpmsign", "gpg")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root installs packages"),
]
OF_SLURM = ("slurm", "slurm-slurmctld", "slurm-slurmd", "slurm-slurmdbd")
SLURM = f"{vendors_rpms.SLURM}-1.el9"


def stack(driver: str = "580.95.05") -> dict[str, Any]:
    return {
        "repositories": [
            {"name": "mirror", "uri": "https://mirror.example.net/el9", "suite": "/", "key": KEY}
        ],
        "versions": dict.fromkeys(OF_SLURM, SLURM),
        "nvidia": {
            "driver": driver,
            "cuda": ["13.0"],
            "fabric_manager": driver,
            "nscq": driver,
            "dcgm": "4.4.1",
            "container_toolkit": "1.18.0",
        },
        "containers": {
            "engines": ["podman"], "enroot": "4.1.2", "pyxis": "0.24.0", "apptainer": "1.5.3"
        },
    }  # fmt: skip


def cluster(driver: str = "580.95.05") -> ClusterPlan:
    def whole(wanted: dict[str, Any]) -> None:
        wanted["os"].update(release="rocky_9")
        wanted["software"] = stack(driver)
        for hardware in wanted["hardware"].values():
            if "gpu" in hardware:
                hardware["gpu"]["nvswitch"] = True

    return planned(whole)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("rpms")
    return folder / "repository", vendors_rpms.build(folder, unsigned=("perftest",))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.made(tmp_path / "root")


def test_dnf_resolves_the_whole_stack_of_every_node(
    root: Root, built: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for node in cluster().nodes.values():
        own = Root(root.folder.parent / node.name)
        shutil.copytree(root.folder, own.folder)
        own.configure(node, *built)
        assert own.install(node) == "", node.name
        found = own.readings(monkeypatch)
        assert set(node.software.packages) <= set(found["packages"]), node.name
        for name, version in node.software.versions.items():
            assert fnmatchcase(found["packages"][name], version), name
        # Everything locked is on hold; nothing is broken.
        assert set(node.software.held) <= set(found["packages.held"])
        assert (found["packages.broken"], found["packages.interrupted"]) == ([], False)
        # A second deploy has nothing to do, and an upgrade by hand keeps the locked versions.
        assert own.run("dnf -y upgrade").returncode == 0
        assert own.readings(monkeypatch) == found


def test_another_version_is_installed_also_if_it_is_older(
    root: Root, built: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = []
    for driver in ("580.105.08", "580.95.05"):
        worker = cluster(driver).nodes["worker1"]
        root.configure(worker, *built)
        assert root.install(worker) == ""
        versions.append(root.readings(monkeypatch)["packages"]["nvidia-driver-cuda"])
    assert versions == ["580.105.08-1.el9", "580.95.05-1.el9"]


def test_without_the_module_stream_dnf_finds_no_driver(
    root: Root, built: tuple[Path, Path]
) -> None:
    worker = cluster().nodes["worker1"]
    root.configure(worker, *built)
    (root.folder / "etc/dnf/modules.d/nvidia-driver.module").unlink()
    assert "filtered out by modular filtering" in root.install(worker)


@pytest.mark.parametrize(
    ("names", "versions", "said"),
    [
        (("munge",), {"munge": "0.5.99-1.el9"}, "No match for argument: munge-0.5.99-1.el9"),
        # EPEL's slurmd beside SchedMD's slurm.
        (
            ("slurm", "slurm-slurmd"),
            {"slurm": SLURM, "slurm-slurmd": "22.05.9-1.el9"},
            "requires slurm = 22.05.9-1.el9, but none of the providers can be installed",
        ),
        (("perftest",), {}, "is not signed"),
    ],
    ids=["a version that is gone", "versions that conflict", "a package without a signature"],
)
def test_what_dnf_refuses_changes_nothing(
    names: tuple[str, ...],
    versions: dict[str, str],
    said: str,
    root: Root,
    built: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root.configure(cluster().nodes["worker1"], *built)
    (root.folder / "etc/dnf/plugins/versionlock.list").write_text("")
    (command,) = change(NOTHING, names, versions, (), family="rhel")
    done = root.run(command)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
    assert root.readings(monkeypatch)["packages"] == {}


def test_a_locked_version_that_is_gone_is_named_with_what_there_is(
    root: Root, built: tuple[Path, Path]
) -> None:
    worker = cluster().nodes["worker1"]
    root.configure(worker, *built)
    (root.folder / "etc/dnf/plugins/versionlock.list").write_text("")
    versions = {"munge": "0.5.99-*", "slurm": SLURM, "nvidia-driver-cuda": "580.99.01-*"}
    (command,) = change(NOTHING, (*versions, "chrony"), versions, (), family="rhel")
    done = root.run(command)
    assert done.returncode != 0
    assert [line for line in done.stderr.splitlines() if line.startswith("refused: ")] == [
        f"refused: no repository of this node has {name} {version}; available: {there}. Next: lock "
        "an available version, or declare a repository that has this one; before a deploy, "
        "lockstep mirror --check asks for all of them"
        for name, version, there in (
            ("munge", "0.5.99-*", "0.5.16-1.el9"),
            ("nvidia-driver-cuda", "580.99.01-*", "580.105.08-1.el9 580.95.05-1.el9"),
        )
    ]


def test_the_locks_and_the_stream_are_checked_by_dnf(root: Root) -> None:
    files = {file.path: file for file in managed(cluster().nodes["worker1"], None, "packages")}
    for path, wrong in (
        ("/etc/dnf/plugins/versionlock.list", "munge 0.5.16-1.el9"),
        ("/etc/dnf/modules.d/nvidia-driver.module", "[nvidia-driver"),
    ):
        file = files[path]
        for text, ok in ((file.content.decode(), True), (f"{wrong}\n", False)):
            candidate = root.folder / "candidate"
            candidate.write_text(text)
            command = file.validate.format(new=shlex.quote(str(candidate)))
            done = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, check=False
            )
            assert (done.returncode == 0) is ok, done.stderr
            assert ok or done.stderr


def test_no_package_may_bring_a_kernel(root: Root, built: tuple[Path, Path]) -> None:
    root.configure(cluster().nodes["worker1"], *built)
    (command,) = change(NOTHING, ("brings-a-kernel",), {}, (), family="rhel")
    done = root.run(command)
    assert done.returncode != 0
    assert "refused: this would change the kernel" in done.stderr


def test_the_other_flavour_of_the_modules_leaves(
    root: Root, built: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = cluster().nodes["worker1"]
    root.configure(worker, *built)
    stream = root.folder / "etc/dnf/modules.d/nvidia-driver.module"
    stream.write_text(stream.read_text().replace("580-open", "580-dkms"))
    other, own = "kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms"
    for command in change(NOTHING, (other, "nvidia-driver-cuda"), {}, (), family="rhel"):
        assert root.run(command).returncode == 0
    root.configure(worker, *built)
    state = replace(NOTHING, installed={other: "580.95.05-1.el9"})
    names, versions = (own, other), worker.software.versions
    for command in change(state, names, versions, (), (other,), family="rhel"):
        done = root.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
    found = root.readings(monkeypatch)["packages"]
    assert (own in found, other in found, "nvidia-driver-cuda" in found) == (True, False, True)


def test_a_package_that_another_one_needs_is_not_removed(
    root: Root, built: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root.configure(cluster().nodes["worker1"], *built)
    (install,) = change(NOTHING, ("enroot", "enroot+caps"), {}, (), family="rhel")
    assert root.run(install).returncode == 0
    for names, ok in ((("enroot",), False), (("enroot", "enroot+caps"), True)):
        taken = [LeftOver("packages", name, "enroot", "unchanged") for name in names]
        command, _ = commands(taken, "dnf -y", "rhel")
        done = root.run(command)
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        assert ok or "enroot = 4.1.2-1.el9 is needed by (installed) enroot+caps" in done.stderr
    assert root.readings(monkeypatch)["packages"] == {}


def test_headers_that_no_repository_has_are_an_error(root: Root, built: tuple[Path, Path]) -> None:
    root.configure(cluster().nodes["worker1"], *built)
    for release, ok in (("5.14.0-503.el9.noarch", True), ("5.14.0-1.el9.noarch", False)):
        headers = {f"kernel-devel-{release}": release}
        refuse, _ = change(NOTHING, ("munge",), {}, (), (), headers, family="rhel")
        done = root.run(refuse)
        assert (done.returncode == 0) is ok, done.stderr
        assert ok or f"no repository of this node has kernel-devel-{release}" in done.stderr


def test_the_repository_file_is_checked_by_dnf(root: Root, built: tuple[Path, Path]) -> None:
    worker = cluster().nodes["worker1"]
    (file,) = (f for f in managed(worker, None, "packages") if f.path.endswith(".repo"))
    for text, ok in (
        (file.content.decode(), True),
        (file.content.decode().replace("gpgcheck=1", "gpgcheck=perhaps"), False),
        (file.content.decode().replace("]", ""), False),
    ):
        candidate = root.folder / "candidate"
        candidate.write_text(text)
        command = file.validate.format(new=shlex.quote(str(candidate)))
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode == 0) is ok, done.stderr
