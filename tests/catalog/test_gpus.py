"""What the catalogue says of boards is possible, and of one piece with the recorded ones."""

import re
from pathlib import Path

import pytest

from lockstep.catalog import gpus
from lockstep.catalog.nvidia.compatibility import ARCHITECTURES

CAPTURES = Path(__file__).resolve().parents[1] / "captures"


@pytest.mark.parametrize("name", gpus.known())
def test_every_board_is_possible(name: str) -> None:
    board = gpus.load(name)
    low, high = board.power_limits_w
    assert 0 < low <= board.default_power_limit_w <= high
    assert board.max_sm_clock_mhz > 0
    assert board.architecture in ARCHITECTURES
    assert board.modules in ARCHITECTURES[board.architecture].modules
    module = __import__(f"lockstep.catalog.gpus.{name}", fromlist=["MODEL"])
    assert module.__doc__


def gigabytes(profile: str) -> int:
    found = re.fullmatch(r"\d+g\.(\d+)gb(\+me)?", profile)
    assert found, profile
    return int(found[1])


@pytest.mark.parametrize("name", [name for name in gpus.known() if gpus.load(name).mig_profiles])
def test_profiles_are_eighths_of_the_boards_memory(name: str) -> None:
    """The validation counts a profile's eighths from its name."""
    board = gpus.load(name)
    whole = max(map(gigabytes, board.mig_profiles))
    assert whole == pytest.approx(board.memory_mib / 1024, rel=0.03)
    for profile in board.mig_profiles:
        eighths = 8 * gigabytes(profile) / whole
        assert eighths == pytest.approx(round(eighths), abs=0.1), profile
        assert round(eighths) in (1, 2, 4, 8)
    assert len(set(board.mig_profiles)) == len(board.mig_profiles)


def recorded() -> dict[str, str]:
    head, row = (CAPTURES / "h200/query-gpu.csv").read_text().splitlines()
    names = [column.split(" [")[0] for column in head.split(", ")]
    return dict(zip(names, row.split(", "), strict=True))


def test_the_h200_is_the_recorded_one() -> None:
    board, row = gpus.load("h200"), recorded()
    assert board.product_name == row["name"]
    assert f"{board.memory_mib} MiB" == row["memory.total"]
    assert f"{board.default_power_limit_w:.2f} W" == row["power.default_limit"]
    low, high = board.power_limits_w
    assert (f"{low:.2f} W", f"{high:.2f} W") == (row["power.min_limit"], row["power.max_limit"])
    assert f"{board.max_sm_clock_mhz} MHz" == row["clocks.max.sm"]
