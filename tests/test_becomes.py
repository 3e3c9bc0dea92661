"""What each field of a description becomes: the lines of ``lockstep plan`` and docs/packages.md."""

import re
from dataclasses import replace
from typing import Any

import pytest

from lockstep import becomes
from lockstep.__main__ import main
from lockstep.catalog.nvidia.repositories import REPOSITORIES
from lockstep.plan import ClusterPlan
from lockstep.plan import plan as make_plan
from lockstep.plan.declaration import Declaration, File
from scripts.generate.packages_page import NODES, PAGE, RELEASES
from tests.golden.write import ROOT, plan_of
from tests.plan.on_release import planned_on


@pytest.fixture(scope="module")
def of_worker() -> dict[str, becomes.Becomes]:
    return becomes.of_fields(plan_of("prod"), ("worker01",))


@pytest.mark.parametrize(
    ("field", "packages", "files"),
    [
        (
            "software.nvidia.dcgm",
            {"datacenter-gpu-manager-4-core": "1:4.6.0-*"},
            {"/etc/apt/preferences.d/90-lockstep": "packages"},
        ),
        (
            "software.containers.engines",
            {"podman": None},
            {"/etc/containers/containers.conf.d/50-lockstep.conf": "container_runtime"},
        ),
        ("hardware.*.nics.rdma", {"rdma-core": None}, {}),
        (
            "scheduler",
            {"slurmd": "24.11.5-4+deb13u1", "munge": None},
            {"/etc/munge/munge.key": "munge"},
        ),
        ("hardware.*.kernel.iommu", {}, {"/etc/default/grub.d/50-lockstep.cfg": "boot_loader"}),
        ("os.locale", {"locales": None}, {"/etc/locale.conf": "os_settings"}),
        ("nodes", {"chrony": None}, {"/usr/sbin/policy-rc.d": "packages"}),
    ],
)
def test_a_field_becomes_its_packages_and_files(
    of_worker: dict[str, becomes.Becomes],
    field: str,
    packages: dict[str, str | None],
    files: dict[str, str],
) -> None:
    found = of_worker[field]
    assert found.packages.items() >= packages.items()
    assert found.files.items() >= files.items()


def test_a_field_does_not_become_what_another_one_does(
    of_worker: dict[str, becomes.Becomes],
) -> None:
    assert set(of_worker["software.nvidia.nccl"].packages) == {"libnccl2"}
    assert of_worker["hardware.*.kernel.iommu"].packages == {}
    # Fields that only set the running node: a time zone is no file of Lockstep's.
    assert "os.time_zone" not in of_worker


def test_everything_on_a_node_comes_from_a_field(of_worker: dict[str, becomes.Becomes]) -> None:
    node = plan_of("prod").nodes["worker01"]
    found = of_worker.values()
    assert set(node.software.packages) <= {one for what in found for one in what.packages}
    assert set(node.system.paths()) <= {one for what in found for one in what.files}


def test_a_new_role_shows_up_under_the_field_that_it_reads() -> None:
    role = Declaration(
        name="of_the_site",
        title="of the site",
        when=lambda plan: plan.is_worker,
        more_packages=lambda plan: ("htop",) if plan.spec.monitoring.retention == "90d" else (),
        files=(File(path="/etc/site", text=lambda plan: str(plan.spec.os.nofile)),),
    )
    plan = plan_of("prod")
    found = becomes.of_fields(make_plan(plan.spec, (*plan.roles, role)), ("worker01",))
    assert set(found["monitoring.retention"].packages) == {"htop"}
    assert found["os.nofile"].files["/etc/site"] == "of_the_site"


def test_becomes_shows_the_lines_and_each_repository_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["plan", str(ROOT / "inventories/prod.py"), "worker01", "--becomes"])
    said = capsys.readouterr().out
    printed = re.sub(" {2,}", " | ", said)
    assert printed.startswith("FIELD | BECOMES | USUALLY FROM\n")
    assert "\nsoftware.nvidia.driver | libcuda1 590.48.01-* | NVIDIA\n" in printed
    assert "\nsoftware.containers.enroot | enroot 4.1.2-* | site\n" in printed
    assert "\nos.sysctl | /etc/sysctl.d/99-zz-lockstep.conf | role os_settings\n" in printed
    assert "\n\nUSUALLY FROM | REPOSITORY | KEY\n" in printed
    key = "02182E60104FCDC26EAE1B8597A5D4CB8793F200"
    assert f"\nNVIDIA | NVIDIA's repository debian13/x86_64 | {key}\n" in printed
    assert "\n | or 41587F7DB8C774BCCF131416762F67A0B2C39DE4\n" in printed
    assert said.count(key) == 1
    assert max(map(len, said.splitlines())) < 160


def test_the_plan_of_a_node_names_the_command_for_the_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    path = "inventories/prod.py"
    main(["plan", path, "worker01"])
    said = capsys.readouterr().out
    assert said.endswith(f"\n\nWhat each field becomes: lockstep plan {path} worker01 --becomes\n")
    assert "FIELD" not in said
    assert main(["plan", path, "--becomes"]) == 3
    assert "--becomes: no node" in capsys.readouterr().err


# -- docs/packages.md


def rows(heading: str) -> list[list[str]]:
    text = (ROOT / PAGE).read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    table = text.partition("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("heading", ["Packages", "Files"])
def test_no_cell_is_empty_without_a_reason(heading: str) -> None:
    head, _, *others = rows(heading)
    assert head == ["field", *(f"`{release}`" for release in RELEASES)]
    assert others
    for row in others:
        assert len(row) == len(head), row
        for cell in row[1:]:
            assert re.match(r"`|the same$|none: \S+ \S+", cell), row


@pytest.mark.parametrize("release", RELEASES)
def test_the_page_has_every_package_and_file_of_every_node(release: str) -> None:
    plan: ClusterPlan = planned_on(release)
    column = 1 + RELEASES.index(release)
    packages = " ".join(row[column] for row in rows("Packages"))
    files = " ".join(row[1] if row[column] == "the same" else row[column] for row in rows("Files"))
    for name in NODES:
        node = plan.nodes[name]
        assert [one for one in node.software.packages if f"`{one}`" not in packages] == []
        paths = [one for one in node.system.paths() if not one.endswith(".py")]
        assert [one for one in paths if f"`{one}`" not in files] == []


def test_every_repository_has_the_key_of_the_catalogue() -> None:
    shown = {(row[0], row[1]): row for row in rows("Repositories")[2:]}
    for release in RELEASES:
        plan = planned_on(release)
        for package in {one for name in NODES for one in plan.nodes[name].software.packages}:
            archive = becomes.source(plan.nodes[NODES[-1]], package)
            row = shown[f"`{release}`", archive.label]
            assert archive.address in row[2]
            assert all(f"`{key}`" in row[3] for key in archive.keys)
            if archive.address:
                assert archive.keys == (REPOSITORIES[archive.address].fingerprint,)


def test_a_package_that_is_not_planned_comes_from_where_its_part_does() -> None:
    node = plan_of("prod").nodes["worker01"]
    found: dict[str, Any] = {
        name: becomes.source(node, name).label
        for name in ("nvidia-imex", "datacenter-gpu-manager-4-core", "nvidia-container-toolkit")
    }
    assert found == {
        "nvidia-imex": "NVIDIA",
        "datacenter-gpu-manager-4-core": "site",
        "nvidia-container-toolkit": "libnvidia-container",
    }
    assert becomes.source(node, "slurmd").label == "archive"
    # The name of a part may contain the CUDA release, and not the part's own version.
    assert becomes.source(node, "nvidia-gds-13-1").label == "NVIDIA"


def test_a_field_without_a_file_says_which_role_sets_it() -> None:
    (row,) = (one for one in rows("Files") if one[0] == "`hardware.*.kernel.iommu`")
    assert row[-1] == "none: the role `boot_loader` sets it there without a file"


def test_values_that_have_no_plan_show_nothing() -> None:
    plan = plan_of("prod")
    nothing = replace(plan, roles=())
    assert becomes.of_fields(nothing, ("worker01",)) == {}
