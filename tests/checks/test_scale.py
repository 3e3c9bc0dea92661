"""The work grows in proportion to the nodes; equal nodes share data in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lockstep import files
from lockstep.checks import compare
from lockstep.checks.context import Context, Items, View, shared
from lockstep.checks.engine import check
from lockstep.checks.rule import Rule, by_hand, same
from lockstep.probe.parse import dumps, loads, record
from lockstep.probe.record import Record
from lockstep.render import render
from tests.checks import healthy, recorded
from tests.declared import FILES

SIZES = (4, 8, 16)


def cluster(workers: int) -> Context:
    def change(description: dict[str, Any]) -> None:
        description["nodes"][1]["name"] = f"worker[01-{workers:02}]"

    return recorded.clustered(change)


def counted(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, contexts: list[Context]
) -> list[int]:
    """Calls of a function in the check of each cluster."""
    calls: Counter[int] = Counter()
    function = getattr(owner, name)
    for number, context in enumerate(contexts):

        def noted(*given: Any, number: int = number, **named: Any) -> Any:
            calls[number] += 1
            return function(*given, **named)

        monkeypatch.setattr(owner, name, noted)
        assert recorded.report(context).findings == []
    return [calls[number] for number in range(len(contexts))]


@pytest.mark.parametrize(("owner", "name"), [(View, "items"), (Record, "get"), (compare, "key")])
def test_work_grows_with_the_nodes(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    few, more, most = counted(monkeypatch, owner, name, [cluster(size) for size in SIZES])
    assert few > 0
    assert most - more == 2 * (more - few), "as much for each node, however many there are"


def test_where_nodes_agree_no_vote_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert counted(monkeypatch, compare, "vote", [cluster(8)]) == [0]


def test_files_of_nodes_alike_are_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def noted(template: str, **values: object) -> str:
        calls[template] += 1
        return render(template, **values)

    monkeypatch.setattr("lockstep.files.render", noted)
    context = cluster(8)
    own = {entry.template for _, entry in FILES if entry.own or entry.secret}
    calls.clear()
    for node in context.plan.nodes.values():
        files.managed(node, recorded.SECRETS)
    assert calls, "nothing was rendered"
    assert {template for template, times in calls.items() if times > 2} <= own


@pytest.mark.parametrize("seed", range(0, 200, 5))
def test_files_that_are_shared_are_what_each_node_would_have(seed: int) -> None:
    for node in healthy.clustered(seed).plan.nodes.values():
        shared = {file.path: file.content for file in files.managed(node, None)}
        alone = {
            file.path: files.rendered(role, file, node, None).content
            for role, file in node.system.files
            if not file.secret
        }
        assert shared == alone, node.name


def test_equal_readings_of_two_nodes_are_one_object() -> None:
    reading = loads(dumps(cluster(2).reading))
    first, second = reading["worker01"], reading["worker02"]
    assert isinstance(first, Record)
    assert isinstance(second, Record)
    assert first.readings["packages"] is second.readings["packages"]
    assert first.readings["os.hostname"] != second.readings["os.hostname"]


def test_values_that_only_seem_equal_are_two() -> None:
    text = '{{"format":1,"taken_at":1,"duration_s":1,"readings":{{"x":{{"value":{}}}}}}}'
    assert record(text.format("1")).get("x") is not record(text.format("true")).get("x")


def test_what_a_node_shares_is_not_another_kinds() -> None:
    looks: list[str] = []

    def role(view: View) -> Items:
        looks.append(view.name)
        return {"": view.plan.role.value}

    look = shared(role, "net.packages")  # no node has it: the head reads what the workers read
    said = [look(view)[""] for view in cluster(3).views.values()]
    assert said == ["head", "worker", "worker", "worker"]
    assert looks == ["head1", "worker01"], "once for a kind"


def test_what_a_node_shares_is_of_nodes_with_equal_readings() -> None:
    looks: list[str] = []

    def packages(view: View) -> Items:
        looks.append(view.name)
        return view.items("packages")

    look = shared(packages, "packages")
    start = cluster(3)
    other = recorded.mutated(start, "worker02", "packages", ("htop",), "3.4.1-5")
    said = [look(view).get("htop") for view in other.views.values()]
    assert said == [None, None, "3.4.1-5", None]
    assert looks == ["head1", "worker01", "worker02"]


def test_an_equal_reading_is_not_right_where_another_is_wanted() -> None:
    context = cluster(3)
    usual = context.views["worker01"].read("kernel.release")
    assert isinstance(usual, str)
    rule = Rule(
        id="test.kernel",
        claim="each its own",
        reading="kernel.release",
        expected=same(lambda view: "another" if view.name == "worker02" else usual),
        repair=by_hand(""),
    )
    assert [one.node for one in check([rule], context).findings] == ["worker02"]


def test_a_value_that_is_equal_and_another_is_not_the_one_of_the_node_before() -> None:
    """``no`` is no counter, also behind a node that says 0."""
    start = cluster(3)
    record = start.reading["worker02"]
    assert isinstance(record, Record)
    raw = record.model_dump(mode="json")
    raw["readings"]["gpu.ecc.corrected_volatile"]["value"]["gpu0"] = False
    reading = {**start.reading, "worker02": recorded.parsed(raw)}
    other = recorded.with_reading(start, reading)
    (only,) = recorded.report(other, "gpu.ecc_corrected").findings
    assert (only.node, only.device, only.found) == ("worker02", "gpu0", "not a number: False")
