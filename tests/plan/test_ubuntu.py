"""Ubuntu with NVIDIA's driver: prod.py's cluster on 22.04 and 24.04, from both package sources."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from lockstep.catalog.nvidia import repositories
from lockstep.catalog.nvidia.repositories import Signed
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.spec import openpgp
from tests.golden.write import FAKE, ROOT, plan_of
from tests.plan.on_release import ANY_KEY, REPOSITORIES, accepted, prod_on, texts

RELEASES = tuple(REPOSITORIES)
NVIDIAS_KEY = "EB693B3035CD5710E231E123A4B469963BF863CC"
NEEDRESTART = "/etc/needrestart/conf.d/50-lockstep.conf"


@pytest.fixture(autouse=True)
def _key_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's key for Ubuntu is not in the tree: another one signs its repositories here."""
    (fingerprint,) = openpgp.fingerprints(ANY_KEY)
    signed = {uri: Signed("https://example.net/key", fingerprint) for uri in REPOSITORIES.values()}
    monkeypatch.setattr(repositories, "REPOSITORIES", {**repositories.REPOSITORIES, **signed})


def worker(wanted: dict[str, Any]) -> NodePlan:
    return accepted(wanted).nodes["worker01"]


def archive(release: str, driver: str, **stack: Any) -> dict[str, Any]:
    """The description with the driver of Ubuntu's archive."""
    wanted = prod_on(release)
    wanted["software"]["nvidia"].update(
        packaging="ubuntu", driver=driver, fabric_manager=driver, nscq=driver, **stack
    )
    return wanted


@pytest.mark.parametrize("release", RELEASES)
def test_every_file_of_the_production_cluster_renders(release: str) -> None:
    plan = accepted(prod_on(release))
    for name in ("head1", "head2", "worker01"):
        node = plan.nodes[name]
        files = {file.path: file.content.decode(errors="replace") for file in managed(node, FAKE)}
        assert files.keys() >= set(node.system.paths()), name
    assert REPOSITORIES[release] in files["/etc/apt/sources.list.d/lockstep.sources"]


@pytest.mark.parametrize("release", RELEASES)
def test_only_nvidias_key_signs_nvidias_repository(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    wanted = prod_on(release)
    wanted["software"]["repositories"][0]["key"] = (
        ROOT / "inventories/keys/nvidia-debian13.asc"
    ).read_text(encoding="ascii")
    (problem,) = texts(wanted)
    assert problem.startswith(
        "software.repositories.0.key: 02182E60104FCDC26EAE1B8597A5D4CB8793F200"
    )
    assert f"-> only {NVIDIAS_KEY}, NVIDIA's key for this repository" in problem
    assert problem.endswith(f"{REPOSITORIES[release]}/3bf863cc.pub")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("stack", "versions", "pins"),
    [
        (
            {"driver": "590.48.01"},
            {
                "libnvidia-cfg1": "590.48.01-*",
                "libnvidia-compute": "590.48.01-*",
                "nvidia-dkms-open": "590.48.01-*",
                "nvidia-fabricmanager": "590.48.01-*",
                "libnvidia-nscq": "590.48.01-*",
            },
            {"nvidia-kernel-common": "590.48.01-*", "nvidia-firmware": "590.48.01-*"},
        ),
        (
            {"driver": "580.95.05", "cuda": ["13.0"]},
            {
                "libnvidia-compute-580": "580.95.05-*",
                "nvidia-utils-580": "580.95.05-*",
                "nvidia-dkms-580-open": "580.95.05-*",
                "nvidia-fabricmanager": "580.95.05-*",
            },
            {"nvidia-kernel-common-580": "580.95.05-*"},
        ),
        (
            {"packaging": "ubuntu", "driver": "580.178.04", "cuda": ["13.0"]},
            {
                "libnvidia-compute-580-server": "580.178.04-*",
                "nvidia-utils-580-server": "580.178.04-*",
                "nvidia-dkms-580-server-open": "580.178.04-*",
                "nvidia-fabricmanager-580": "580.178.04-*",
                "libnvidia-nscq-580": "580.178.04-*",
            },
            {
                "nvidia-kernel-common-580-server": "580.178.04-*",
                "nvidia-firmware-580-server-580.178.04": "580.178.04-*",
            },
        ),
    ],
    ids=["NVIDIA", "NVIDIA before 590", "Ubuntu's archive"],
)
def test_the_names_of_the_driver(
    release: str, stack: dict[str, Any], versions: dict[str, str], pins: dict[str, str]
) -> None:
    wanted = prod_on(release)
    driver = stack["driver"]
    wanted["software"]["nvidia"].update(stack, fabric_manager=driver, nscq=driver)
    software = worker(wanted).software
    assert software.versions.items() >= versions.items()
    assert software.pins.items() >= pins.items()
    # Not one name of Debian's packages.
    assert not {"libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms"} & {*software.packages}
    assert software.driver is not None
    assert software.driver.flavour == "open"
    assert software.driver.replaced
    assert not [name for name in software.driver.replaced if "open" in name]


@pytest.mark.parametrize("release", RELEASES)
def test_a_branch_that_ubuntu_replaced_is_refused_with_the_branch_that_came_instead(
    release: str,
) -> None:
    (problem,) = texts(archive(release, "590.48.01"))
    assert problem == (
        "software.nvidia.driver: 590.48.01 with packaging: ubuntu -> a branch that the archive "
        "has: its packages of branch 590 are empty, and depend on branch 595 (as of 2026-11-24); "
        'or packaging: "nvidia"'
    )


@pytest.mark.parametrize("release", RELEASES)
def test_the_packages_of_another_distribution_are_refused(release: str) -> None:
    wanted = prod_on(release)
    wanted["software"]["nvidia"].update(packaging="debian")
    assert texts(wanted) == [
        f'software.nvidia.packaging: debian on {release} -> "nvidia" or "ubuntu"'
    ]


def test_without_a_repository_the_message_names_ubuntus_packages() -> None:
    wanted = prod_on("ubuntu_24_04")
    wanted["software"].update(repositories=[], containers={}, rdma=None)
    wanted["software"]["nvidia"].pop("container_toolkit")
    (problem,) = texts(wanted)
    assert problem.endswith('or set packaging: "ubuntu"')


@pytest.mark.parametrize("release", RELEASES)
def test_what_was_not_read_in_a_repository_is_named(release: str) -> None:
    def notes(wanted: dict[str, Any]) -> list[str]:
        return [one for one in accepted(wanted).notes if "names of the driver's packages" in one]

    (note,) = notes(prod_on(release))
    assert note.startswith(f"not verified: names of the driver's packages on {release} ")
    assert notes(archive(release, "595.91.07")) == []
    deployed = (
        f"not verified: {release}: no machine with Ubuntu was deployed or booted with Lockstep"
    )
    assert deployed in accepted(archive(release, "595.91.07")).notes


# -- Slurm's cgroups on 22.04


def test_the_slurm_of_22_04_cannot_use_cgroup_v2() -> None:
    wanted = prod_on("ubuntu_22_04")
    del wanted["hardware"]["hgx-h200"]["cgroup"]
    (problem,) = texts(wanted)
    assert problem.startswith("hardware.hgx-h200.cgroup: v2 with Slurm 21.08, the version of ")
    assert '"none": only Slurm 22.05 and later can use cgroup v2' in problem
    wanted["software"]["versions"]["slurmd"] = "24.11.5-4"
    assert texts(wanted) == []
    wanted["software"]["versions"]["slurmd"] = "21.08.5-2ubuntu1"
    assert len(texts(wanted)) == 1


# -- what Ubuntu does unasked


@pytest.mark.parametrize("release", RELEASES)
def test_needrestart_lists_services_and_restarts_none(release: str, tmp_path: Path) -> None:
    files = {file.path: file for file in managed(worker(prod_on(release)), None)}
    file = files[NEEDRESTART]
    conf = tmp_path / "50-lockstep.conf"
    conf.write_bytes(file.content)
    subprocess.run(["sh", "-c", file.validate.format(new=conf)], check=True)
    # needrestart evaluates the file as the body of a block that knows %nrconf.
    shown = subprocess.run(
        ["perl", "-e", f'our %nrconf = (restart => "a"); do "{conf}"; print $nrconf{{restart}}'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "l"
    conf.write_text("$nrconf{restart = 'l';\n")
    wrong = subprocess.run(
        ["sh", "-c", file.validate.format(new=conf)], capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, "syntax error" in wrong.stderr) == (1, True)


def test_debian_has_no_files_for_programs_that_only_ubuntu_brings() -> None:
    paths = plan_of("prod").nodes["worker01"].system.paths()
    assert not {NEEDRESTART, "/etc/cloud/cloud.cfg.d/90-lockstep.cfg"} & set(paths)


@pytest.mark.parametrize("release", RELEASES)
def test_cloud_init_leaves_the_host_name_alone(release: str) -> None:
    files = {file.path: file.content for file in managed(worker(prod_on(release)), None)}
    lines = files["/etc/cloud/cloud.cfg.d/90-lockstep.cfg"].decode().splitlines()
    assert {"preserve_hostname: true", "manage_etc_hosts: false"} <= set(lines)
