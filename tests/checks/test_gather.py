"""Nodes that hang: the delay of the other nodes, with pyinfra and with testinfra."""

from __future__ import annotations

import io
import json
import os
import re
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from paramiko import Channel
from typing_extensions import override

from lockstep.consistency import nodes
from lockstep.fleet import gather, read_nodes
from lockstep.fleet.share import dumps, loads
from lockstep.probe.lines import MARKER, node_line
from lockstep.probe.parse import node_of
from lockstep.probe.record import Reading, Record, Unreachable
from lockstep.reading import Progress
from tests.checks import recorded

RECORD = {"format": 1, "taken_at": 0, "duration_s": 0, "readings": {}}
CREDENTIAL = {"munge.credential": {"value": "MUNGE:x:"}}


@dataclass
class Output:
    stdout: str
    stderr_lines: tuple[str, ...] = ()
    stdout_lines: tuple[str, ...] = ()


class Client:
    """What pyinfra's connector has, connected through a jump host."""

    open: ClassVar[list[str]] = []
    most: ClassVar[int] = 0

    def __init__(self, name: str, through: Client | None = None) -> None:
        channel: Any = Channel(1)
        channel.transport = through
        self.name, self.sock = name, channel
        self.open.append(name)
        Client.most = max(self.most, len(self.open))

    def get_transport(self) -> Client:
        return self

    def close(self) -> None:
        if self.name in self.open:
            self.open.remove(self.name)
        raise ProcessLookupError("a ProxyCommand that has ended")


class Host:
    """A pyinfra host that answers after a while."""

    def __init__(self, name: str, connects_s: float, answers_s: float) -> None:
        self.data: dict[str, Any] = {}
        self.name, self.connects_s, self.answers_s = name, connects_s, answers_s
        self.connector = SimpleNamespace(client=None)
        self.connected = False

    def connect(self, **_: object) -> None:
        self.connector.client = Client(self.name, Client(f"{self.name}'s jump host"))
        pause(self.connects_s)
        self.connected = True

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

    def with_input(request: Any) -> tuple[str, list[str]]:
        given[f"node{len(given)}"] = request.credential
        assert request.listeners
        assert request.files
        return "true", []

    monkeypatch.setattr(read_nodes, "with_input", with_input)
    return given


def read(
    monkeypatch: pytest.MonkeyPatch,
    head_connects_s: float,
    head_answers_s: float,
    nodes: Collection[str] | None = None,
    at_once: int = 128,
) -> Reading:
    """Read as a process of its own does; what it says of the controller gives the credential."""
    from gevent.event import AsyncResult
    from pyinfra.api.inventory import Inventory

    hosts = {
        name: Host(name, *((head_connects_s, head_answers_s) if name == "head1" else (0.0, 0.4)))
        for name in recorded.consistent().plan.nodes
    }

    def host(_: Inventory, name: str) -> Host:
        return hosts[name]

    told: AsyncResult[str] = AsyncResult()
    reading: Reading = {}

    def done(name: str, got: read_nodes.Got) -> None:
        _, reading[name] = node_of(node_line(name, got).encode())
        if name == "head1":
            told.set(gather.credential(reading[name]))

    monkeypatch.setattr(Inventory, "get_host", host)
    plan = recorded.consistent().plan
    share = gather.share_of(plan, [*(nodes or plan.nodes)], at_once)
    read_nodes.read_all(loads(dumps(share)), lambda timeout: told.wait(timeout) or None, done)
    return reading


@pytest.mark.parametrize("hangs", ["at its connection", "at its record"])
def test_a_controller_that_hangs_makes_no_worker_unreachable(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None], hangs: str
) -> None:
    monkeypatch.setattr(read_nodes, "NODE_TIMEOUT_S", 1.0)
    monkeypatch.setattr(read_nodes, "CREDENTIAL_TIMEOUT_S", 0.8)
    connects_s, answers_s = (30.0, 0.0) if "connection" in hangs else (0.0, 30.0)
    begin = time.monotonic()
    reading = read(monkeypatch, connects_s, answers_s)
    assert time.monotonic() - begin < 5
    got = reading.pop("head1")
    assert isinstance(got, Unreachable)
    where = "ssh: no connection within 1.0 s" if "connection" in hangs else "no record within 1.0 s"
    assert got.reason.startswith(where)
    assert {name: type(got) for name, got in reading.items()} == dict.fromkeys(reading, Record)
    assert len(reading) == 8
    assert {given for given in asked.values() if given} == set()


def test_the_credential_of_the_controller_reaches_the_others(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None]
) -> None:
    # The controller and a worker together take longer than one node may.
    monkeypatch.setattr(read_nodes, "NODE_TIMEOUT_S", 0.7)
    reading = read(monkeypatch, 0.0, 0.5)
    assert {type(got) for got in reading.values()} == {Record}
    assert list(asked.values()) == [None, *["MUNGE:x:"] * 8]


def test_an_internal_error_is_reported_for_its_node_and_delays_no_other(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None]
) -> None:
    own = read_nodes._one

    def one(state: Any, node: str, *rest: Any) -> read_nodes.Got:
        if node == "head1":
            raise RuntimeError("ours")
        return own(state, node, *rest)

    monkeypatch.setattr(read_nodes, "_one", one)
    begin = time.monotonic()
    reading = read(monkeypatch, 0.0, 0.0)
    assert time.monotonic() - begin < read_nodes.CREDENTIAL_TIMEOUT_S / 2
    assert reading.pop("head1") == Unreachable("not read: RuntimeError: ours")
    assert {type(got) for got in reading.values()} == {Record}


@pytest.mark.parametrize("hangs", [False, True])
def test_only_so_many_connections_are_open_at_once(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str | None], hangs: bool
) -> None:
    """Each is a file here and a login there, also on a jump host."""
    monkeypatch.setattr(read_nodes, "NODE_TIMEOUT_S", 1.0)
    monkeypatch.setattr(read_nodes, "CREDENTIAL_TIMEOUT_S", 0.8)
    monkeypatch.setattr(Client, "most", 0)
    assert len(read(monkeypatch, 0.0, 30.0 if hangs else 0.0, at_once=2)) == 9
    assert Client.open == []
    assert Client.most == (1 + 2) * 2


class Screen(io.StringIO):
    """Where progress is shown; a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    @override
    def isatty(self) -> bool:
        return self.terminal


STAND_IN = """\
#!{python}
{first}
import os, sys
from lockstep.fleet.share import loads

share = loads(sys.stdin.readline())
nodes, at_once, through = list(share.requests), share.at_once, share.through

def say(name, got):
    print('"%s":%s' % (name, got), flush=True)

def record(readings=""):
    return '{{"record":{{"format":1,"taken_at":0,"duration_s":0,"readings":{{%s}}}}}}' % readings

UNREACHABLE = '{{"unreachable":"%s"}}'
CREDENTIAL = record('"munge.credential":{{"value":"MUNGE:x:"}}')
{says}
"""
"""A program that says of its nodes what a test wants, in place of the one that reads them."""


@dataclass
class Reader:
    """Runs the check's side with such a program."""

    path: Path
    first: str = ""

    def gather(
        self,
        says: str,
        nodes: Collection[str] | None = None,
        screen: Any = None,
        through: str = "",
    ) -> Reading:
        self.path.write_text(STAND_IN.format(python=PYTHON, says=says, first=self.first))
        self.path.chmod(0o755)
        plan = recorded.consistent().plan
        progress = Progress(len(nodes or plan.nodes), screen or Screen(terminal=False))
        reading = gather.gather(plan, nodes, through=through, tell=progress.tell)
        progress.end()
        return reading


PYTHON = sys.executable


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Reader:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return Reader(tmp_path / "python")


@pytest.fixture
def three_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "SHARE", 3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))


@pytest.mark.parametrize(
    ("terminal", "no_color", "shown"),
    [
        (False, "", "reading 3 nodes ...\nread 1 of 3 nodes in 0 s, 2 failed\n"),
        (True, "1", "reading 3 nodes ...\nread 1 of 3 nodes in 0 s, 2 failed\n"),
        (
            True,
            "",
            "\r\x1b[Kreading: 0 of 3 nodes\r\x1b[Kreading: 1 of 3 nodes"
            "\r\x1b[Kreading: 2 of 3 nodes, 1 failed\r\x1b[Kreading: 3 of 3 nodes, 2 failed"
            "\r\x1b[Kread 1 of 3 nodes in 0 s, 2 failed\n",
        ),
    ],
    ids=["elsewhere", "no color", "terminal"],
)
def test_progress_counts_the_nodes_that_were_asked_for(
    reader: Reader,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    no_color: str,
    shown: str,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    screen = Screen(terminal)
    reading = reader.gather(
        """
say("head1", CREDENTIAL)
print("a complaint", file=sys.stderr)
assert nodes == ["head1", "worker1", "worker7", "worker8"], nodes
say("worker1", record())
say("worker7", UNREACHABLE % "off")
say("worker8", UNREACHABLE % "off")
""",
        {"worker1", "worker7", "worker8"},
        screen,
    )
    assert list(reading) == ["worker1", "worker7", "worker8"]
    assert reading["worker7"] == Unreachable("off")
    assert re.sub(r"in \d+ s", "in 0 s", screen.getvalue()) == shown
    assert capsys.readouterr().err == "a complaint\n"


SHARDS = """
asked = nodes
if "head1" in asked:
    say("head1", CREDENTIAL)
given = sys.stdin.readline().strip()
for name in asked:
    if name != "head1":
        say(name, UNREACHABLE % f"{given} {at_once} {len(asked)}")
"""


def test_the_credential_of_the_controller_goes_to_every_process(
    reader: Reader, three_processes: None
) -> None:
    reading = reader.gather(SHARDS)
    assert isinstance(reading.pop("head1"), Record)
    assert reading == {
        f"worker{number}": Unreachable(f"MUNGE:x: {128 // 3} 3") for number in range(1, 9)
    }


def test_a_process_that_dies_costs_its_own_nodes_only(
    reader: Reader, three_processes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    dies = """
if "worker2" in nodes:
    say("worker2", record())
    print('"worker5":{"record"', end="", flush=True)
    print("no memory", file=sys.stderr, flush=True)
    os.kill(os.getpid(), 9)
"""
    reading = reader.gather(
        dies + SHARDS.replace('UNREACHABLE % f"{given} {at_once} {len(asked)}"', "record()")
    )
    lost = {name: got for name, got in reading.items() if isinstance(got, Unreachable)}
    assert lost == dict.fromkeys(("worker5", "worker8"), Unreachable("not read: no memory"))
    assert len(reading) == 9
    assert capsys.readouterr().err == "a process that reads nodes failed: no memory\n"


def test_a_controller_whose_process_dies_delays_no_node(
    reader: Reader, three_processes: None
) -> None:
    reading = reader.gather('if "head1" in nodes:\n    sys.exit(1)' + SHARDS)
    assert reading["head1"] == Unreachable("not read: exit 1")
    assert reading["worker1"] == Unreachable(f" {128 // 3} 3")


def test_what_slurm_does_not_reach_is_read_directly(
    reader: Reader, capsys: pytest.CaptureFixture[str]
) -> None:
    step = """
if through == "--through-slurm=7":
    say("head1", CREDENTIAL.replace("x", "of the step"))
    assert sys.stdin.readline() == "MUNGE:of the step:\\n"
    for number in range(1, 6):
        say("worker%d" % number, record())
    sys.exit(0)
"""
    reading = reader.gather(step + SHARDS, through="--through-slurm=7")
    unread = {name: got for name, got in reading.items() if isinstance(got, Unreachable)}
    # Another credential: munge decodes none twice on a node.
    assert unread == dict.fromkeys(("worker6", "worker7", "worker8"), Unreachable("MUNGE:x: 128 4"))
    assert list(reading) == list(recorded.consistent().plan.nodes)
    said = capsys.readouterr().err
    assert said == "not reached through Slurm, read directly: worker[6-8]\n"


def test_a_step_that_reaches_all_is_all(reader: Reader) -> None:
    step = """
assert through == "--through-slurm=", "a second process"
for name in nodes:
    say(name, record())
"""
    assert len(reader.gather(step, through="--through-slurm=")) == 9


def test_a_process_that_dies_before_it_was_told_costs_its_own_nodes_only(
    reader: Reader, three_processes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is told is more than a pipe holds, and there is still the credential to tell."""
    monkeypatch.setattr(gather, "dumps", lambda share: dumps(share) + " " * (1 << 20))
    # Which nodes it would have read stands in its arguments.
    reader.first = "import sys; 'worker[2,' in sys.argv[-1] and sys.exit('no memory')"
    reading = reader.gather(SHARDS)
    lost = {name for name, got in reading.items() if "no memory" in getattr(got, "reason", "")}
    assert lost == {"worker2", "worker5", "worker8"}
    assert len(reading) == 9


def test_a_line_that_is_none_ends_the_reading_and_is_shown(reader: Reader) -> None:
    with pytest.raises(gather.GatherError, match=r"^invalid node name: b'y/n \"head1\"'"):
        reader.gather("""print('y/n "head1":{"record":{}}')""")


def test_a_reading_of_which_nothing_comes_ends_with_its_last_words(reader: Reader) -> None:
    with pytest.raises(gather.GatherError, match=r"^last words$"):
        reader.gather("sys.exit('last words')")
    with pytest.raises(gather.GatherError, match=r"^not saved records: "):
        reader.gather("print('hello')")


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (
            "{",
            "invalid JSON: Expecting property name enclosed in double quotes: line 1 column 2",
        ),
        ("", "invalid JSON: Expecting value: line 1 column 1 (char 0)"),
        ('{"format":1}', "taken_at: Field required"),
        # A node speaks for itself alone.
        (
            f'{json.dumps(RECORD)}}},"worker2":{{"record":{json.dumps(RECORD)}',
            "invalid JSON: Extra data",
        ),
    ],
)
def test_what_is_no_record_is_named(printed: str, reason: str) -> None:
    name, got = node_of(node_line("worker1", printed).encode())
    assert name == "worker1"
    assert isinstance(got, Unreachable)
    assert got.reason.startswith(f"reached by ssh, but the output is not a record: {reason}")


@pytest.mark.parametrize("hashed", [False, True])
def test_one_hanging_node_does_not_hang_the_consistency_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hashed: bool
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
    plan = recorded.consistent().plan
    config = nodes.ssh_config(plan, tmp_path)
    assert "ServerAliveInterval" in config.read_text()
    monkeypatch.setattr(nodes, "NODE_TIMEOUT_S", 1)
    ways = nodes.by_ssh(plan, config)
    begin = time.monotonic()
    got = nodes.read(ways["worker1"], nodes.question(plan.nodes["worker1"], fingerprint=hashed))
    assert time.monotonic() - begin < 10
    assert isinstance(got, Unreachable)
    assert got.reason.startswith("no record within 1 s. Next: run a command on the node by hand")
