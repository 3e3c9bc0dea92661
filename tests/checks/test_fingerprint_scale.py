"""Fingerprints of many nodes: alike nodes are judged once, with the result of one by one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lockstep.checks.context import Context
from lockstep.checks.fingerprint import past as past_module
from lockstep.checks.fingerprint import places, texts
from lockstep.checks.fingerprint.findings import BRANCHES, READING, wanted_past
from lockstep.fleet.request import Asked
from lockstep.history import fingerprints, store
from lockstep.node.fingerprint.domains import DOMAINS
from lockstep.node.fingerprint.entry import Secret
from lockstep.node.fingerprint.own import Own
from lockstep.node.fingerprint.tree import Fingerprint
from lockstep.node.readers.commands import Commands
from lockstep.plan import ClusterPlan
from lockstep.probe.record import Reading, Record, Taken, only_records
from lockstep.reading import with_branches
from lockstep.when import HOUR_S
from tests.checks import recorded
from tests.checks.recorded_fingerprint import KEY, Objects, fingerprint, objects, with_objects
from tests.node.fingerprint.conftest import Root
from tests.node.fingerprint.conftest import root as root

NODES = tuple(f"worker{number}" for number in range(1, 8))


def drifted(chance: Random, node: str, only_own: bool) -> Objects:
    """Return the objects of a node; they may be restricted to those with an identity."""
    found = objects(node, f"fd00::{node.removeprefix('worker')}")
    contents = [f"of {node}, a\n", f"of {node}, b\n", "of worker3\n"]
    if not only_own:
        contents += ["a\n", "b\n", Secret("s")]
    for domain in chance.sample(("file", "unit", "sysctl", "running"), 2):
        for number in range(2 if only_own else chance.randint(0, 4)):
            if domain != "running" or chance.random() < 0.2:
                found[domain][f"/etc/{number}"] = {"content": chance.choice(contents)}
        if domain != "running" and not only_own and chance.random() < 0.2:
            del found[domain]["own"]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_equal_nodes_are_passed_over_with_the_result_of_object_by_object(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    taken = {}
    for node in NODES:
        own = Random(f"{seed} {node}" if chance.random() < 0.3 else f"{seed}")
        value = fingerprint(node, f"fd00::{node[-1]}", drifted(own, node, seed % 2 == 0))[READING]
        taken[node] = places.Taken.of(value)
    found = list(places.differing(taken))
    monkeypatch.setattr(places, "_are_equal", lambda domain, among: False)
    assert found == list(places.differing(taken)), f"seed {seed}"


def reported(checks: list[Context], folder: Path) -> list[Any]:
    """Return the findings of the last of some checks, an hour apart."""
    with store.opened(folder / "history.sqlite") as history:
        for number, context in enumerate(checks):
            fingerprints.save(history, context.reading, 1.7e9 + number * HOUR_S, "")
        past = {one: fingerprints.versions(history, *one) for one in wanted_past(checks[-1:])}
    return recorded.report(replace(checks[-1], past=past)).findings


@pytest.mark.parametrize("seed", range(12))
def test_the_past_of_alike_nodes_is_that_of_each_node(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, start = Random(seed), recorded.consistent()

    def drift() -> dict[str, Objects]:
        """Half of the workers have one value, half another; some change on their own."""
        values = chance.choices("abc", k=2)
        return {
            node: {
                "file": {
                    "/etc/half": {"content": values[node in NODES[:4]]},
                    "/etc/rest": {"content": chance.choice("aaaab")},
                    "/etc/own": {"content": f"{node} {chance.choice('aab')}"},
                    "/etc/other": {"content": f"worker2 {values[node in NODES[2:6]]}"},
                }
            }
            for node in (*NODES, "worker8")
        }

    states = [drift() for _ in range(3)]
    checks = [with_objects(start, chance.choice(states)) for _ in range(4)]
    (tmp_path / "alike").mkdir()
    (tmp_path / "each").mkdir()
    found = reported(checks, tmp_path / "alike")
    monkeypatch.setattr(past_module._OnNode, "key", lambda self: self.node)
    assert found == reported(checks, tmp_path / "each"), f"seed {seed}"


def of_size(workers: int) -> Context:
    def change(description: dict[str, Any]) -> None:
        description["nodes"][1]["name"] = f"worker[1-{workers}]"

    return recorded.clustered(change)


@pytest.mark.parametrize("odd", ["a third of them", "half of them"])
def test_a_side_of_many_nodes_is_worded_and_dated_once(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[tuple[int, str]] = Counter()
    share = 3 if odd == "a third of them" else 2
    for workers in (6, 24):
        start = of_size(workers)
        changed = {
            f"worker{number}": {"file": {"/etc/odd": {"content": f"{number % share == 0}\n"}}}
            for number in range(1, workers + 1)
        }

        def counted(what: str, function: Any, workers: int, *given: Any, **named: Any) -> Any:
            calls[workers, what] += 1
            return function(*given, **named)

        functions = ((texts, "detail"), (texts, "found"), (past_module, "Then"))
        with monkeypatch.context() as patch:
            for owner, name in functions:
                patch.setattr(owner, name, partial(counted, name, getattr(owner, name), workers))
            checks = [with_objects(start, {}), with_objects(start, changed)]
            folder = tmp_path / str(workers)
            folder.mkdir()
            found = reported(checks, folder)
        assert found, "nothing differs"
    assert {what for _, what in calls} == {"detail", "found", "Then"}
    assert all(calls[6, what] == calls[24, what] for _, what in calls), calls


FILES = next(domain for domain in DOMAINS if domain.name == "file")


def shown(root: Root, node: str, wanted: Asked = ()) -> dict[str, Taken]:
    """Return the readings of a node whose files are those below a folder."""
    asked: dict[str, list[str]] = {}
    for domain, name in wanted:
        asked.setdefault(domain, []).append(name)
    fingerprint = Fingerprint(Own({"name": [node]}), KEY, asked)
    fingerprint.read(FILES, {}, Commands())
    answer = fingerprint.answer()
    assert not answer["unread"]
    values = {READING: answer, BRANCHES: fingerprint.branches}
    return {name: Taken(value=value) for name, value in values.items()}


def test_one_changed_byte_is_one_finding_after_one_question_to_two_nodes(root: Root) -> None:
    workers, odd = 40, "worker17"
    start = of_size(workers)
    for number in range(200):
        root.file(f"/etc/daemon/{number}.conf", f"[daemon]\nnumber = {number}\n" * 20)
    file = root.at("/etc/daemon/77.conf")
    was, content = file.stat(), file.read_bytes()

    def is_changed(changed: bool) -> None:
        file.write_bytes(content.replace(b"77", b"78", 1) if changed else content)
        os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)

    def with_(record: Record, more: Mapping[str, Taken]) -> Record:
        return record.model_copy(update={"readings": {**record.readings, **more}})

    reading: Reading = {}
    for name, record in only_records(start.reading).items():
        is_changed(name == odd)
        reading[name] = with_(record, shown(root, name))
    questions: list[Mapping[str, Asked]] = []

    def ask(plan: ClusterPlan, wanted: Mapping[str, Asked]) -> Reading:
        questions.append(wanted)
        answers: Reading = {}
        for name, wants in wanted.items():
            is_changed(name == odd)
            record = start.reading[name]
            assert isinstance(record, Record)
            answers[name] = with_(record, shown(root, name, wants))
        return answers

    judged = replace(start, reading=with_branches(start.plan, reading, ask))
    finding = recorded.only(recorded.report(judged).findings)
    assert (finding.rule, finding.node) == ("fingerprint.file", odd)
    assert finding.device == "/etc/daemon/77.conf"
    assert "number = 78" in finding.found
    assert [len(one) for one in questions] == [2]
    assert odd in questions[0]
    assert all(len(wants) == 1 for wants in questions[0].values()), "one bucket"
