"""The RDMA stack: what the nodes cannot have is refused, with the nearest that they can have."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan, notes
from lockstep.plan.fabric import doca_packages
from lockstep.spec import Cluster
from tests.plan import on_release
from tests.plan.on_release import ANY_KEY, prod_on

BEFORE = ("software.repositories.0.key", "software.repositories.1.suite")
PUBLIC = "https://linux.mellanox.com/public/repo/doca"


def with_rdma(release: str = "ubuntu_24_04", **rdma: Any) -> dict[str, Any]:
    wanted = prod_on(release)
    wanted["software"]["rdma"] = rdma
    return wanted


def doca(version: str = "3.3.0", release: str = "ubuntu_24_04") -> dict[str, Any]:
    return with_rdma(release, stack="doca_ofed", version=version)


def texts(wanted: dict[str, Any]) -> list[str]:
    """The problems, without those of the repositories that the description has from the start."""
    return [one for one in on_release.texts(wanted) if not one.startswith(BEFORE)]


def found(wanted: dict[str, Any]) -> str:
    (text,) = texts(wanted)
    return text


def accepted(wanted: dict[str, Any]) -> ClusterPlan:
    assert texts(wanted) == []
    return planned(Cluster.model_validate(wanted))


@pytest.mark.parametrize(
    ("rdma", "said"),
    [
        (
            {"stack": "distribution", "version": "3.3.0"},
            "software.rdma.version: 3.3.0 with stack: distribution -> leave it out, or stack: ",
        ),
        ({"stack": "doca_ofed"}, "software.rdma.version: not declared -> the release of DOCA-Host"),
        (
            {"stack": "doca_ofed", "version": "3.1.0"},
            "software.rdma.version: 3.1.0 on ubuntu_24_04 -> 3.2.0 or later: earlier releases",
        ),
    ],
)
def test_a_version_that_fits_no_stack_or_release_is_refused(
    rdma: dict[str, Any], said: str
) -> None:
    assert found(with_rdma(**rdma)).startswith(said)


def test_the_nearest_release_is_that_of_the_operating_system() -> None:
    wanted = prod_on("ubuntu_24_04")
    wanted["os"]["release"] = "debian_13"
    wanted["software"]["nvidia"]["packaging"] = "nvidia"
    wanted["software"]["rdma"] = {"stack": "doca_ofed", "version": "3.2.0"}
    assert "3.2.0 on debian_13 -> 3.2.1 or later" in found(wanted)


def test_workers_without_rdma_have_no_stack() -> None:
    wanted = doca()
    for field in ("rdma", "rdma_devices", "gpudirect", "ipoib_mode"):
        del wanted["hardware"]["hgx-h200"]["nics"][field]
    (text,) = (one for one in texts(wanted) if one.startswith("software.rdma"))
    assert text.endswith("leave it out: no worker has RDMA devices (hardware.*.nics.rdma)")


def test_doca_ofed_needs_a_repository() -> None:
    wanted = doca()
    for one in wanted["software"]["repositories"]:
        one["releases"] = []
    wanted["software"]["repositories"] = []
    assert any("a repository that provides doca-ofed" in one for one in texts(wanted))


@pytest.mark.parametrize(
    ("path", "right"),
    [
        ("3.2.1/ubuntu24.04/x86_64", "3.3.0/ubuntu24.04/x86_64"),
        ("latest/ubuntu24.04/x86_64", "3.3.0/ubuntu24.04/x86_64"),
        ("3.3.0/ubuntu22.04/x86_64", "3.3.0/ubuntu24.04/x86_64"),
        ("3.3.0/ubuntu24.04/arm64-sbsa", "3.3.0/ubuntu24.04/x86_64"),
    ],
)
def test_nvidias_repository_is_that_of_the_declared_release(path: str, right: str) -> None:
    wanted = doca()
    wanted["software"]["repositories"].append(
        {"name": "doca", "uri": f"{PUBLIC}/{path}", "suite": "./", "key": ANY_KEY}
    )
    said = [one for one in texts(wanted) if ".uri: " in one]
    assert said == [
        f"software.repositories.2.uri: {PUBLIC}/{path} -> {PUBLIC}/{right} for DOCA-Host 3.3.0"
    ]


def test_doca_hosts_repository_would_replace_the_distributions_libraries() -> None:
    wanted = with_rdma("rocky_9", stack="distribution")
    wanted["software"]["repositories"].append(
        {"name": "doca", "uri": f"{PUBLIC}/3.3.0/rhel9/x86_64", "suite": "/", "key": ANY_KEY}
    )
    assert "would take its place" in found(wanted)


def test_nvidia_peermem_needs_doca_ofed() -> None:
    wanted = with_rdma(stack="distribution")
    wanted["hardware"]["hgx-h200"]["nics"]["gpudirect"] = "peermem"
    assert 'peermem with software.rdma.stack: distribution -> "dma_buf", or stack' in found(wanted)
    wanted["software"]["rdma"] = {"stack": "doca_ofed", "version": "3.3.0"}
    assert "nvidia-peermem" in (accepted(wanted).nodes["worker01"].nvidia or 0).load_modules  # type: ignore[union-attr]


@pytest.mark.parametrize("release", ["ubuntu_24_04", "rocky_9"])
def test_the_workers_get_doca_ofed_and_the_headers_that_dkms_needs(release: str) -> None:
    plan = accepted(doca(release=release))
    worker, head = plan.nodes["worker01"], plan.nodes["head1"]
    assert worker.software.versions["doca-ofed"] == "3.3.0-*"
    assert "doca-ofed" in worker.software.held
    assert worker.software.headers
    assert (doca_packages(head), head.software.headers) == ({}, "")
    unmanaged = doca(release=release)
    unmanaged["unmanaged"] = ["rdma"]
    assert "doca-ofed" not in accepted(unmanaged).nodes["worker01"].software.packages


def test_modules_are_built_and_signed_also_without_a_gpu_driver() -> None:
    wanted = doca()
    del wanted["software"]["nvidia"]
    wanted["software"]["containers"] = {}
    wanted["software"]["versions"] = {}
    worker = accepted(wanted).nodes["worker01"]
    assert worker.software.headers == "linux-headers-{release}"
    assert "module_signing" in worker.roles


def test_a_machine_without_a_kernel_of_its_own_gets_the_libraries_only() -> None:
    wanted = doca()
    hardware = wanted["hardware"]["hgx-h200"]
    hardware["boot_loader"] = "none"
    for field in ("kernel", "kernel_args", "hugepages"):
        del hardware[field]
    for field in ("gdrcopy", "nvidia_fs", "cufile", "module_options"):
        del wanted["software"]["nvidia"][field]
    del wanted["software"]["module_signing"]
    assert doca_packages(accepted(wanted).nodes["worker01"]) == {"doca-ofed-userspace": "3.3.0-*"}


def test_a_lock_that_contradicts_the_release_is_refused() -> None:
    wanted = doca()
    wanted["software"]["versions"]["doca-ofed"] = "3.2.1-044000"
    assert "3.2.1-044000, but rdma.version is 3.3.0 -> 3.3.0-*, as in software.rdma" in found(
        wanted
    )
    wanted["software"]["versions"]["doca-ofed"] = "3.3.0-088000"
    assert accepted(wanted).nodes["worker01"].software.versions["doca-ofed"] == "3.3.0-088000"


def test_what_nobody_has_verified_is_noted() -> None:
    plan = accepted(doca(release="rocky_9"))
    (note,) = (one for one in notes.not_verified(plan.spec) if "DOCA-OFED" in one)
    assert note.startswith("not verified: rocky_9: DOCA-OFED 3.3.0 did not build for kernel")
