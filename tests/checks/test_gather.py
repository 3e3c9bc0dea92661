"""Nodes that hang: what they cost the others, over pyinfra and over testinfra."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typing_extensions import override

from lockstep.facts import gather
from lockstep.facts.progress import Progress, Tell, said
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
    tell: Tell = lambda done, failed: None,
) -> Reading:
    from pyinfra.api.inventory import Inventory

    def host(_: Inventory, name: str) -> Host:
        head = name == "head1"
        return Host(name, head_connects_s if head else 0.0, head_answers_s if head else 0.4)

    monkeypatch.setattr(Inventory, "get_host", host)
    return gather.read_all(recorded.consistent().plan, nodes, tell=tell)


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


class Screen(io.StringIO):
    """Where progress is shown; a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    @override
    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "shown"),
    [
        (False, "reading 9 nodes ...\nread 7 of 9 nodes in 0 s, 2 failed\n"),
        (
            True,
            "\r\x1b[Kreading: 0 of 9 nodes\r\x1b[Kreading: 8 of 9 nodes, 1 failed"
            "\r\x1b[Kreading: 9 of 9 nodes, 2 failed"
            "\r\x1b[Kread 7 of 9 nodes in 0 s, 2 failed\n",
        ),
    ],
    ids=["elsewhere", "terminal"],
)
def test_progress_comes_from_the_reading_process_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    terminal: bool,
    shown: str,
) -> None:
    """In place of Python a program that tells as the reading process does."""
    program = tmp_path / "python"
    program.write_text(
        f"#!/bin/sh\necho '{said(8, 1)}' >&2\necho 'a complaint' >&2\necho '{said(9, 2)}' >&2\n"
        """echo '{"format": 1, "nodes": {"head1": {"unreachable": "off"}}}'\n"""
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    screen = Screen(terminal)
    progress = Progress(9, screen)
    assert gather.gather("inventory.py", tell=progress.tell) == {"head1": Unreachable("off")}
    progress.end()
    assert screen.getvalue() == shown
    assert capsys.readouterr().err == "a complaint\n"
    program.write_text(f"#!/bin/sh\necho '{said(1, 0)}' >&2\necho 'last words' >&2\nexit 1\n")
    with pytest.raises(gather.GatherError, match=r"^last words$"):
        gather.gather("inventory.py")


def test_every_node_that_is_done_is_told(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None]
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(gather, "NODE_TIMEOUT_S", 0.3)
    read(monkeypatch, 0.0, 30.0, tell=lambda done, failed: told.append((done, failed)))
    assert [done for done, _ in told] == list(range(1, 10))
    assert told[-1] == (9, 9)


def test_a_controller_that_nobody_asked_for_is_not_told(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None]
) -> None:
    told: list[tuple[int, int]] = []
    nodes = {"worker3", "worker5"}
    read(monkeypatch, 0.0, 0.0, nodes, lambda done, failed: told.append((done, failed)))
    assert told[-1] == (2, 0)


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
    ways = tests.by_ssh(plan, tmp_path)
    assert "ServerAliveInterval" in (tmp_path / "config").read_text()
    begin = time.monotonic()
    got = tests.read(plan.nodes["worker1"], ways["worker1"], None)
    assert time.monotonic() - begin < 10
    assert got == Unreachable("no record within 1 s")
