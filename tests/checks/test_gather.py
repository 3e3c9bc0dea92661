"""Nodes that hang: what they cost the others, over pyinfra and over testinfra."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lockstep.facts import gather
from lockstep.probe.parse import MARKER
from lockstep.probe.record import Reading, Record, Unreachable
from tests.checks import recorded

RECORD = {"format": 1, "taken_at": 0, "duration_s": 0, "readings": {}}
CREDENTIAL = {"munge.credential": {"value": "MUNGE:x:"}}


@dataclass
class Output:
    stdout: str
    stderr_lines: tuple[str, ...] = ()
    stdout_lines: tuple[str, ...] = ()


class Host:
    """A pyinfra host that answers after a while."""

    def __init__(self, name: str, connects_s: float, answers_s: float) -> None:
        self.data: dict[str, Any] = {}
        self.name, self.connects_s, self.answers_s = name, connects_s, answers_s

    def connect(self, **_: object) -> None:
        pause(self.connects_s)

    def run_shell_command(self, *_: object, **__: object) -> tuple[bool, Output]:
        pause(self.answers_s)
        readings = CREDENTIAL if self.name == "head1" else {}
        return True, Output(f"{MARKER}\n{json.dumps({**RECORD, 'readings': readings})}\n")


def pause(seconds: float) -> None:
    from gevent import sleep

    sleep(seconds)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """The credential that each node was given to decode."""
    given: dict[str, str | None] = {}

    def command(request: Any) -> str:
        given[f"node{len(given)}"] = request.credential
        assert request.listeners
        assert request.files
        return "true"

    monkeypatch.setattr(gather, "command", command)
    return given


def read(
    monkeypatch: pytest.MonkeyPatch,
    head_connects_s: float,
    head_answers_s: float,
    nodes: Collection[str] | None = None,
) -> Reading:
    from pyinfra.api.inventory import Inventory

    def host(_: Inventory, name: str) -> Host:
        head = name == "head1"
        return Host(name, head_connects_s if head else 0.0, head_answers_s if head else 0.4)

    monkeypatch.setattr(Inventory, "get_host", host)
    return gather.read_all(recorded.consistent().plan, nodes)


@pytest.mark.parametrize("hangs", ["at its connection", "at its record"])
def test_a_controller_that_hangs_makes_no_worker_unreachable(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None], hangs: str
) -> None:
    monkeypatch.setattr(gather, "NODE_TIMEOUT_S", 1.0)
    monkeypatch.setattr(gather, "CREDENTIAL_TIMEOUT_S", 0.8, raising=False)
    connects_s, answers_s = (30.0, 0.0) if "connection" in hangs else (0.0, 30.0)
    begin = time.monotonic()
    reading = read(monkeypatch, connects_s, answers_s)
    assert time.monotonic() - begin < 5
    assert reading.pop("head1") == Unreachable("no record within 1.0 s")
    assert {name: type(got) for name, got in reading.items()} == dict.fromkeys(reading, Record)
    assert len(reading) == 8
    assert {given for given in asked.values() if given} == set()


def test_the_credential_of_the_controller_reaches_the_others(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None]
) -> None:
    # The controller and a worker together take longer than one node may.
    monkeypatch.setattr(gather, "NODE_TIMEOUT_S", 0.7)
    reading = read(monkeypatch, 0.0, 0.5)
    assert {type(got) for got in reading.values()} == {Record}
    assert list(asked.values()) == [None, *["MUNGE:x:"] * 8]


def test_a_few_nodes_are_read_with_a_credential_and_without_the_others(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None]
) -> None:
    reading = read(monkeypatch, 0.0, 0.0, {"worker3", "worker5"})
    assert sorted(reading) == ["worker3", "worker5"]
    assert list(asked.values()) == [None, "MUNGE:x:", "MUNGE:x:"]


def consistency() -> ModuleType:
    path = Path(__file__).parents[1] / "consistency/conftest.py"
    spec = importlib.util.spec_from_file_location("consistency_conftest", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_one_hanging_node_does_not_hang_the_consistency_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``ssh`` and ``sudo`` run the command here; its ``python3`` hangs for long."""
    for name, script in (
        ("ssh", 'for last; do :; done; exec /bin/sh -c "$last"'),
        ("sudo", 'shift 2; exec "$@"'),
        ("python3", "exec /bin/sleep 20"),
    ):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tests = consistency()
    monkeypatch.setattr(tests, "NODE_TIMEOUT_S", 1, raising=False)
    plan = recorded.consistent().plan
    config = tests.ssh_config(plan, tmp_path)
    assert "ServerAliveInterval" in config.read_text()
    begin = time.monotonic()
    got = tests.read(plan.nodes["worker1"], config, None)
    assert time.monotonic() - begin < 10
    assert got == Unreachable("no record within 1 s")
