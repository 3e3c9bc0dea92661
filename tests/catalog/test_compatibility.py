"""The tables of compatible versions, and the nearest version that fits."""

import re

import pytest

from lockstep.catalog.nvidia import compatibility as table


@pytest.mark.parametrize(
    "origin",
    [
        *(one.origin for one in table.ARCHITECTURES.values()),
        *(one.origin for one in table.BRANCHES.values()),
        *(one.origin for one in table.CUDA_RELEASES.values()),
    ],
)
def test_every_row_has_a_source_and_a_day(origin: table.Origin) -> None:
    assert origin.source
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", origin.looked_up)


def test_branches_from_470_to_610_have_a_row() -> None:
    wanted = {470, 510, 515, 525, 535, 550, 560, 565, 570, 575, 580, 590, 595, 610}
    assert wanted <= set(table.BRANCHES)
    assert [*table.BRANCHES] == sorted(table.BRANCHES)


@pytest.mark.parametrize(("number", "branch"), table.BRANCHES.items())
def test_a_branch_agrees_with_the_cuda_release_that_brought_it(
    number: int, branch: table.Branch
) -> None:
    released = table.CUDA_RELEASES.get(branch.cuda)
    assert released is None or table.branch(released.driver) == number
    assert not branch.ends or re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", branch.ends)
    assert branch.ends or not branch.supported


@pytest.mark.parametrize("release", table.CUDA_RELEASES)
def test_the_driver_of_a_release_runs_it(release: str) -> None:
    assert table.runs(table.CUDA_RELEASES[release].driver, release)


@pytest.mark.parametrize(
    ("wanted", "driver", "nearest"),
    [
        (["13.0"], "575.57.08", "12.9"),
        (["12.4"], "520.61.05", "11.8"),
        (["13.9"], "580.95.05", "13.3"),
        (["12.4"], "550.54.14", "12.4"),
        (["12.4"], "440.33.01", ""),
    ],
)
def test_the_nearest_cuda_of_a_driver(wanted: list[str], driver: str, nearest: str) -> None:
    assert table.nearest_cuda(wanted, lambda one: table.runs(driver, one)) == nearest


@pytest.mark.parametrize(
    ("driver", "first", "last", "nearest"),
    [
        ("520.61.05", 525, None, "580"),
        ("610.43.02", 396, 580, "580"),
        ("610.43.02", 525, None, "620"),
        ("600.1.1", 525, None, "595"),
        ("470.1.1", 396, 470, ""),
    ],
)
def test_the_nearest_branch(driver: str, first: int, last: int | None, nearest: str) -> None:
    assert table.nearest_branch(driver, first, last) == nearest


@pytest.mark.parametrize(
    ("release", "newer"), [("13.9", True), ("12.10", True), ("12.7", False), ("14.0", False)]
)
def test_a_release_that_is_newer_than_the_table(release: str, newer: bool) -> None:
    assert table.is_newer(release) is newer
