"""The steps of a deploy: one node of each kind first, then shares of the others."""

import pytest

from lockstep.plan.canary import steps

WORKERS = {f"worker{number}": "gpu" for number in range(1, 10)}


@pytest.mark.parametrize(
    ("share", "sizes"),
    [
        (0.25, [1, 3, 3, 2]),
        (0.01, [1] * 9),
        (0.5, [1, 5, 3]),
        (1, [1, 8]),
    ],
)
def test_a_kind_goes_in_shares_after_its_canary(share: float, sizes: list[int]) -> None:
    found = steps(WORKERS, WORKERS, share)
    assert [len(step) for step in found] == sizes
    assert [name for step in found for name in step] == [*WORKERS]


def test_each_kind_has_a_canary_and_all_kinds_go_at_once() -> None:
    kinds = {"head": "head", "a1": "a", "a2": "a", "b1": "b", "b2": "b", "b3": "b"}
    assert steps(kinds, kinds, 0.3) == (("head", "a1", "b1"), ("a2", "b2"), ("b3",))


def test_a_canary_is_a_node_that_needs_a_change_and_the_others_come_last() -> None:
    found = steps(WORKERS, ["worker5", "worker3"], 1)
    assert found[0] == ("worker3",)
    assert found[1] == (
        "worker5",
        *(name for name in WORKERS if name not in ("worker3", "worker5")),
    )


def test_without_changes_all_nodes_go_at_once() -> None:
    assert steps(WORKERS, (), 0.25) == (tuple(WORKERS),)
    assert steps({}, (), 0.25) == ()


def test_a_single_node_is_its_own_canary_and_the_others_go_with_it() -> None:
    assert steps({"head": "head", "worker1": "gpu"}, ["head"], 0.25) == (("head", "worker1"),)
