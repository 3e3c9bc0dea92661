"""Huge pages on a NUMA node that this machine lacks: requested once, then pending."""

from pathlib import Path

import pytest

from lockstep.facts import boot
from lockstep.roles.operations import hugepages
from lockstep.roles.operations.hugepages import running_hugepages
from tests.roles.local import asked, on_node, read_below, run

NOWHERE = {"2M": {99: 8}}


@pytest.fixture(autouse=True)
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that a node keeps below /run, in a folder of this test."""
    path = tmp_path / "run/hugepages-tried"
    for module in (boot, hugepages):
        monkeypatch.setattr(module, "HUGEPAGES_TRIED", str(path))
    on_node(monkeypatch, "/run/lockstep/hugepages-tried", str(path))
    return path


def test_a_kernel_that_cannot_give_them_is_asked_once(tried: Path) -> None:
    first = run(running_hugepages, wanted=NOWHERE)
    assert (first.succeeded, first.commands) == (True, 2)
    assert tried.read_text().startswith("2M:99:8 reached ")
    assert run(running_hugepages, wanted=NOWHERE).commands == 0


def test_pages_that_were_lost_since_are_asked_for_again(tried: Path) -> None:
    run(running_hugepages, wanted=NOWHERE)
    tried.write_text("2M:99:8 reached 4096\n")
    assert run(running_hugepages, wanted=NOWHERE).commands == 2


def test_another_plan_is_asked_for() -> None:
    run(running_hugepages, wanted=NOWHERE)
    assert run(running_hugepages, wanted={"2M": {99: 9}}).commands == 2


def test_no_huge_pages_in_the_plan_is_nothing_to_do(tried: Path) -> None:
    assert run(running_hugepages, wanted={}).commands == 0
    assert not tried.exists()


def test_a_mounted_hugetlbfs_is_read_with_its_mode_and_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, point = tmp_path / "root", "/dev/hugepages"
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mounts").write_text(f"hugetlbfs {point} hugetlbfs rw,pagesize=2M 0 0\n")
    (root / point[1:]).mkdir(parents=True)
    (root / point[1:]).chmod(0o1777)
    read_below(monkeypatch, root)
    gid = (root / point[1:]).stat().st_gid
    mounts = asked(boot.hugetlb_mounts((point, "/dev/hugepages1G")))
    assert mounts == {point: boot.HugetlbMount("1777", gid)}
