"""What the node check makes of values that a GPU does not have."""

from __future__ import annotations

from typing import Any

from lockstep.node.check.judge import Judgement, judge
from lockstep.node.readers.reading import NOT_SUPPORTED


def texts(one: Judgement, **readings: Any) -> list[tuple[str, bool]]:
    values = {name.replace("_", "."): {"value": value} for name, value in readings.items()}
    return [(result.text, result.unread) for result in judge([one], values)]


def test_a_gpu_without_a_default_is_not_compared_with_it() -> None:
    one = Judgement(("limit",), "gpu.power_limit", reference="default", shown="{} W")
    assert texts(one, limit={"gpu0": 80}, default={"gpu0": NOT_SUPPORTED}) == []
    assert texts(one, limit={"gpu0": 80}, default={"gpu0": 100}) == [
        ("gpu.power_limit gpu0: found 80 W, expected 100 W", False)
    ]


def test_a_gpu_that_nvidia_smi_leaves_out_has_no_link() -> None:
    links = {str(number): "26.562 GB/s" for number in range(18)}
    wanted = "18 x 26.562 GB/s"
    one = Judgement(("links",), "gpu.nvlink", devices="all", expected=wanted, tally=True)
    seen = {"links": {"gpu1": links}, "all": {"gpu0": "", "gpu1": ""}}
    assert texts(one, **seen) == [(f"gpu.nvlink gpu0: found none, expected {wanted}", False)]
