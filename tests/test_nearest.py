"""Suggestions for unknown names."""

from __future__ import annotations

import pytest

from lockstep.nearest import did_you_mean, one_of

NAMES = ["gpu.count", "gpu.ecc", "gpu.ecc_corrected", "gpu.power_limit", "os.locale"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpu.ec", "did you mean gpu.ecc?"),
        ("gpu.ecc_correct", "did you mean gpu.ecc_corrected?"),
        ("os.local", "did you mean os.locale?"),
        ("power_limit", "did you mean gpu.power_limit?"),
        ("ecc", "did you mean gpu.ecc or gpu.ecc_corrected?"),  # a part of a name
        ("gpu", "did you mean gpu.count, gpu.ecc or gpu.ecc_corrected?"),
        ("x", "a rule"),
        ("o", "a rule"),
        ("", "a rule"),
    ],
)
def test_similar_names_are_suggested(name: str, said: str) -> None:
    assert did_you_mean(name, iter(NAMES), "a rule") == said


def test_a_short_list_is_shown_whole() -> None:
    assert one_of("hed", ["head", "gpu"]) == "did you mean head? One of: head, gpu"
    assert one_of("x", ["head", "gpu"]) == "one of: head, gpu"
