from __future__ import annotations

from typing import Any

from lockstep.checks.compare import Majority, Split, Vote, duplicates, multiset, vote, worse
from lockstep.checks.context import Context
from lockstep.checks.engine import check
from lockstep.checks.rule import Bound, Kind, Peers, Rule
from tests.checks import recorded


def votes(**values: Any) -> list[Vote]:
    return [Vote(node, "", value) for node, value in values.items()]


def test_all_equal_is_no_verdict() -> None:
    assert vote(votes(a=1, b=1, c=1)) is None


def test_a_strict_majority_of_three_names_the_other() -> None:
    verdict = vote(votes(a=1, b=2, c=1))
    assert verdict == Majority(1, 2, 3, (Vote("b", "", 2),))


def test_two_nodes_are_a_split_however_many_devices_they_have() -> None:
    many = [Vote("a", f"gpu{n}", 1) for n in range(8)] + [Vote("b", "gpu0", 2)]
    assert isinstance(vote(many), Split)


def test_the_largest_of_three_sides_without_half_is_a_split() -> None:
    assert isinstance(vote(votes(a=1, b=1, c=2, d=3)), Split)


def test_one_side_only_of_the_median_is_wrong() -> None:
    every = votes(a=100, b=101, c=99, d=150, e=50)
    low = worse(every, Bound.AT_LEAST, 0.05)
    assert isinstance(low, Majority)
    assert [one.node for one in low.others] == ["e"]
    high = worse(every, Bound.AT_MOST, 0.05)
    assert isinstance(high, Majority)
    assert [one.node for one in high.others] == ["d"]


def test_a_multiset_forgets_which_device_has_what() -> None:
    assert multiset({"a": 1, "b": 2}) == multiset({"a": 2, "b": 1})


def test_holders_of_one_value_are_named_together() -> None:
    said = {"a": {"": "x"}, "b": {"": "y"}, "c": {"": "x"}}
    assert duplicates(said) == [(Vote("a", "", "x"), Vote("c", "", "x"))]
    assert duplicates({"a": {"": "x"}, "b": {"": "y"}}) == []


def rule(kind: Kind, reading: str, **more: Any) -> Rule:
    return Rule(id="test", claim="", reading=reading, kind=kind, peers=Peers.CLASS, **more)


def found(one: Rule, context: Context) -> list[tuple[str, str, str]]:
    return [(f.node, f.device, f.found) for f in check([one], context) if f.rule == one.id]


def test_slots_and_multisets_differ_where_two_gpus_are_swapped() -> None:
    def bus(one: str, two: str) -> dict[str, str]:
        return {"gpu0": one, "gpu1": two}

    start = recorded.consistent()
    for name in start.plan.nodes:
        pair = bus("1b", "2c") if name != "worker3" else bus("2c", "1b")
        start = recorded.mutated(start, name, "gpu.pci_bus_id", (), pair)
    assert found(rule(Kind.MULTISET, "gpu.pci_bus_id"), start) == []
    swapped = found(rule(Kind.SLOTS, "gpu.pci_bus_id"), start)
    assert swapped == [("worker3", "gpu0", "2c"), ("worker3", "gpu1", "1b")]


def test_a_clock_below_the_peers_is_found_and_one_above_is_not() -> None:
    one = rule(Kind.WITHIN, "gpu.clocks.max_sm_mhz", tolerance=0.05)
    start = recorded.mutated(
        recorded.consistent(), "worker3", "gpu.clocks.max_sm_mhz", ("gpu3",), 1500
    )
    start = recorded.mutated(start, "worker4", "gpu.clocks.max_sm_mhz", ("gpu3",), 2500)
    context = recorded.with_reading(
        start, {name: got for name, got in start.reading.items() if name != "head1"}
    )
    assert found(one, context) == [("worker3", "gpu3", "1500")]


def gpus(node: str, *values: int) -> list[Vote]:
    return [Vote(node, f"gpu{number}", value) for number, value in enumerate(values)]


def test_of_two_nodes_a_gpu_is_named_that_its_own_neighbours_speak_against() -> None:
    found = worse(gpus("a", 345, 345, 1500, 345) + gpus("b", *[345] * 4), Bound.AT_MOST, 0.5)
    assert found == Majority(517.5, 2, 2, (Vote("a", "gpu2", 1500),))


def test_of_two_nodes_neither_is_named_where_half_of_one_differs() -> None:
    found = worse(gpus("a", 345, 345, 1500, 1500) + gpus("b", *[345] * 4), Bound.AT_MOST, 0.5)
    assert isinstance(found, Split)
    assert [len(side) for side in found.sides] == [6, 2]
    two = worse(gpus("a", 1500) + gpus("b", 345), Bound.AT_MOST, 0.5)
    assert isinstance(two, Split)
