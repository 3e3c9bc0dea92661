"""The speed suite counts right, delays frames, and requires the same end state of all tools."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from benchmarks.speed import __main__ as speed
from benchmarks.speed import (
    assertions,
    bench,
    figures,
    fingerprints,
    meter,
    peers,
    playbook,
    promises,
    relay,
    series,
    simulation,
    tasks,
)
from benchmarks.speed.bench import Bench
from benchmarks.speed.figures import Run
from benchmarks.speed.meter import below, end_below
from benchmarks.speed.network import Control
from benchmarks.speed.peers import REQUIREMENTS, Peers, ensure
from benchmarks.speed.series import Series
from benchmarks.speed.tasks import NoLabError
from lab import state
from lab.state import LabState
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.spec import NodeRole
from tests.checks.recorded import SECRETS, consistent

START = Run("rerun", "lockstep", 10, 0.0, 0, wall_s=99.0, cpu_s=99.0, peak_mib=1.0)


def worker() -> NodePlan:
    nodes = consistent().plan.nodes.values()
    return next(node for node in nodes if node.role is NodeRole.WORKER)


# -- figures


def runs() -> list[Run]:
    """A warm-up and three runs of ours (1, 2, 9 s) and of a peer that takes ten times as long."""
    found = []
    for name, factor in (("lockstep", 1.0), ("ansible", 10.0)):
        found.append(replace(START, series=name))
        for number, wall_s in enumerate((1.0, 9.0, 2.0), start=1):
            run = replace(START, series=name, number=number, sessions=20, sent_bytes=20_000)
            found.append(replace(run, wall_s=wall_s * factor, cpu_s=factor))
    return found


def test_rows_are_medians_without_the_warm_up() -> None:
    ours, ansible = figures.rows(runs())
    assert (ours.wall_s, ours.fastest_s, ours.slowest_s, ours.runs) == (2.0, 1.0, 9.0, 3)
    assert (ours.wall_ratio, ansible.wall_ratio, ansible.cpu_ratio) == (1.0, 10.0, 10.0)
    assert (ours.cpu_per_node_s, ours.kilobytes_per_node, ours.sessions_per_node) == (0.1, 2.0, 2.0)


def test_ratios_are_of_the_same_place() -> None:
    there = [replace(run, round_trip_ms=20.0, wall_s=run.wall_s * 3) for run in runs()]
    found = figures.rows([*runs(), *there])
    assert [row.wall_ratio for row in found] == [1.0, 10.0, 1.0, 10.0]


def test_without_a_run_of_lockstep_there_is_no_ratio() -> None:
    (row,) = figures.rows(run for run in runs() if run.series == "ansible")
    assert (row.wall_ratio, row.cpu_ratio) == (None, None)
    assert figures.table([row]).splitlines()[-1].endswith("| - | - |")


def test_nodes_that_were_names_are_said_to_be() -> None:
    assert figures.under_names([replace(run, machines=10) for run in runs()]) == []
    (line,) = figures.under_names([replace(run, machines=9) for run in runs()])
    assert line == "rerun, 10 nodes: names of 9 machines"


def test_table_is_markdown() -> None:
    lines = figures.table(figures.rows(runs())).splitlines()
    assert {line.count("|") for line in lines} == {12}
    assert "| rerun | 10 | 0 ms | ansible | 20 | 10-90 | 1 | 2 | 2 | 10 | 10 |" in lines


def test_growth_is_against_as_many_times_the_first() -> None:
    first, more = simulation.Size(10, 2.0, 1.0, 100.0), simulation.Size(100, 10.0, 5.0, 145.0)
    assert more.row(first) == "| 100 | 10 | 5 | 50 | 0.5 | 0.5 | 145 | 0.5 |"
    assert first.row(first).endswith("| 1 | 1 | 100 | - |")


def test_promises_are_judged_where_they_were_measured() -> None:
    at_20 = [replace(run, round_trip_ms=20.0) for run in runs()]
    lines = promises.table(figures.rows(at_20)).splitlines()[2:]
    assert lines == [
        "| rerun | 10 | 20 ms | executions per node | at most 3 | 2 | kept |",
        "| rerun | 10 | 20 ms | wall, ansible / Lockstep | at least 40 | 10 | **not kept** |",
    ]


def test_a_check_is_compared_with_the_rerun_of_the_same_lab() -> None:
    check = [replace(run, task="check", nodes=51) for run in runs() if run.series == "lockstep"]
    plain = [
        replace(run, series="plain pyinfra", nodes=50) for run in runs() if run.series == "ansible"
    ]
    (line,) = promises.table(figures.rows([*check, *plain])).splitlines()[2:]
    # 1 s for 51 nodes beside 10 s for 50 nodes
    assert line == "| check | 50 | 0 ms | CPU, plain rerun / Lockstep | at least 10 | 10.2 | kept |"


# -- relay


@pytest.fixture
def cable() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends with the relay and 100 ms of round trip between them."""
    one, near = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    other, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ended, end = socket.socketpair()
    words = (near.fileno(), far.fileno(), 0.1, ended.fileno())
    thread = threading.Thread(target=relay.relay, args=words)
    thread.start()
    yield one, other
    end.close()
    thread.join()
    for made in (one, near, other, far, ended):
        made.close()


def test_a_frame_is_half_a_round_trip_under_way(
    cable: tuple[socket.socket, socket.socket],
) -> None:
    for source, target in (cable, cable[::-1]):
        began = time.monotonic()
        source.send(b"frame")
        assert select.select([target], [], [], 0.02)[0] == []
        assert target.recv(100) == b"frame"
        assert 0.05 <= time.monotonic() - began < 0.5


def test_frames_keep_their_order_and_do_not_wait_for_each_other(
    cable: tuple[socket.socket, socket.socket],
) -> None:
    one, other = cable
    began = time.monotonic()
    for number in range(9):
        one.send(bytes([number]))
    assert [other.recv(100)[0] for _ in range(9)] == list(range(9))
    assert time.monotonic() - began < 0.4


# -- meter

BUSY = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


def metered(folder: Path, *command: str) -> dict[str, float]:
    file = folder / "cost.json"
    words = [sys.executable, "-m", "benchmarks.speed.meter", str(file), *command]
    done = subprocess.run(words, check=False)
    cost: dict[str, float] = json.loads(file.read_text())
    assert done.returncode == cost["status"]
    return cost


def test_the_meter_counts_what_a_command_starts(tmp_path: Path) -> None:
    cost = metered(tmp_path, "sh", "-c", f"{sys.executable} -c '{BUSY}'; exit 3")
    assert cost["status"] == 3
    assert 0.3 <= cost["cpu_s"] < 3
    assert cost["peak_mib"] > 1


def test_the_meter_counts_and_ends_what_outlives_a_command(tmp_path: Path) -> None:
    busy = f"{BUSY}\nopen({str(tmp_path / 'done')!r}, 'w').close(); time.sleep(60)"
    (tmp_path / "busy.py").write_text(busy)
    wait = f"until [ -e {tmp_path}/done ]; do sleep 0.01; done"
    start = f"setsid {sys.executable} {tmp_path}/busy.py & {wait}"
    began = time.monotonic()
    cost = metered(tmp_path, "sh", "-c", start)
    assert cost["cpu_s"] >= 0.3
    assert cost["wall_s"] < time.monotonic() - began < 30


def test_what_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "MERCY_S", 0.3)
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    words = ["sh", "-c", f"sh -c {shlex.quote(stubborn)} & wait"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        (child, *_) = below(parent.pid)
        end_below(parent.pid)
    assert not Path(f"/proc/{child}").exists()


def test_a_process_that_ended_has_no_children() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert below(done.pid) == []


# -- series in turn


class NoWire(Control):
    """A wire on which nothing passes."""

    @property
    @override
    def prefix(self) -> tuple[str, ...]:
        return ()

    @override
    def bytes(self) -> int:
        return 0


LAB = LabState.model_construct(name="none", nodes=[])


def test_a_series_that_fails_once_has_no_figure_and_is_not_tried_again(tmp_path: Path) -> None:
    tried = tmp_path / "tried"
    fails = f"echo >>{tried}; [ $(wc -l <{tried}) -lt 3 ]"
    compared = [Series("lockstep", ("true",)), Series("ansible", ("sh", "-c", fails))]
    one = Bench(tmp_path, repeat=4)
    one.measure("rerun", compared, LAB, NoWire("", 0), 2)
    assert {run.series for run in one.runs} == {"lockstep"}
    assert tried.read_text().count("\n") == 3
    assert one.problems == ["rerun, 2 nodes, 0 ms, ansible: exit 1: ..."]
    assert not one.once("rerun", compared[1], LAB, NoWire("", 0), 2, 1)
    assert tried.read_text().count("\n") == 3


def test_a_series_that_takes_too_long_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "WITHIN_S", 3.0)
    started = tmp_path / "started"
    endless = ("sh", "-c", f"setsid sleep 600 & echo $! >{started}; wait")
    one = Bench(tmp_path, repeat=1)
    one.measure("rerun", [Series("ansible", endless)], LAB, NoWire("", 0), 2)
    assert one.problems == ["rerun, 2 nodes, 0 ms, ansible: not finished after 3 s"]
    assert not Path(f"/proc/{started.read_text().strip()}").exists()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGHUP], ids=["Ctrl-C", "closed"])
def test_an_end_from_the_terminal_ends_what_a_series_started(
    tmp_path: Path, ending: signal.Signals
) -> None:
    started = tmp_path / "started"
    program = (
        "import signal; from pathlib import Path\n"
        # Whoever starts the tests in the background has it ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from benchmarks.command_line import end_as_interrupted; end_as_interrupted()\n"
        "from benchmarks.speed.bench import Bench; from benchmarks.speed.series import Series\n"
        "from lab.state import LabState\n"
        f"endless = ('sh', '-c', 'setsid sleep 600 & echo $! >{started}; wait')\n"
        "lab = LabState.model_construct(name='none', nodes=[])\n"
        f"Bench(Path({str(tmp_path)!r}), 1).cost(Series('ansible', endless), lab, ())\n"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True) as run:
        while not (started.exists() and started.read_text()):
            time.sleep(0.01)
        os.killpg(run.pid, ending)
        said = run.communicate(timeout=60)[1]
    assert said.endswith(b"KeyboardInterrupt\n")
    assert not Path(f"/proc/{started.read_text().strip()}").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--repeat 0", "'0': expected a whole number, 1 or more"),
        ("--nodes 2,x", "'x': expected a whole number, 1 or more"),
        ("--nodes 51", "expected at most 50 workers"),
        ("--round-trips nan", "'nan': expected milliseconds, 0 or more"),
        ("--round-trips -5", "expected milliseconds, 0 or more"),
        ("--tasks reruns", "'reruns': expected one of: rerun, check, repair, deploy"),
        ("--without plain", "'plain': expected one of: lockstep, plain pyinfra, ansible"),
        ("--json /nowhere/speed.json", "expected a file in an existing folder"),
        ("--names 50 --nodes 2 --tasks repair", "--names works only with --tasks rerun,check"),
        ("--names 50 --nodes 2,3", "--names needs a single number in --nodes"),
        ("--processor-each --tasks rerun", "--processor-each works only with --tasks deploy"),
    ],
)
@pytest.mark.usefixtures("fast_path")
def test_wrong_words_are_said_before_anything_is_made(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        speed.main(words.split())
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_without_the_fast_path_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCKSTEP_FAST", "0")
    with pytest.raises(SystemExit):
        speed.main(["--nodes", "1"])
    assert "LOCKSTEP_FAST" in capsys.readouterr().err


@pytest.mark.usefixtures("fast_path")
@pytest.mark.parametrize(
    ("there_before", "words", "removed"),
    [
        (False, [], ["bench"]),
        (True, [], []),
        (False, ["--keep"], []),
        (True, ["--tasks", "deploy"], []),
    ],
)
def test_a_lab_that_was_kept_is_not_removed_for_a_run_that_did_not_get_it(
    there_before: bool,
    words: list[str],
    removed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(bench: Bench, asked: object, found: object) -> None:
        raise NoLabError("bench-fresh" if "deploy" in words else "bench", "has 50 workers")

    down: list[str] = []
    monkeypatch.setattr(state, "path_of", lambda name: tmp_path / ("" if there_before else name))
    monkeypatch.setattr(speed, "_measure", refused)
    monkeypatch.setattr(peers, "ensure", lambda: "no network")
    monkeypatch.setattr(tasks, "remove", down.append)
    assert speed.main(["--nodes", "2", *words]) == 1
    assert down == removed


def test_every_series_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/ansible_mitogen").mkdir(parents=True)
    found, nodes = Peers(tmp_path), [worker()]
    compared = [
        *series.apply(found, "", []),
        *series.check(found, "", "", nodes),
        *series.repair(found, "", nodes[0].name),
        *series.deploy(found, "", "", nodes),
    ]
    assert {one.name for one in compared} == set(series.NAMES)


@pytest.mark.parametrize("words", ["--nodes 1", "--repeat 0", "--json /nowhere/file"])
def test_the_simulation_says_wrong_words_as_well(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        simulation.main(words.split())
    assert ended.value.code == 2
    assert ": expected a" in capsys.readouterr().err


def test_fingerprints_are_compared_by_the_medians_without_the_warm_up() -> None:
    def run(case: str, number: int, cpu_s: float) -> dict[str, Any]:
        cost = {"wall_s": 2 * cpu_s, "cpu_s": cpu_s, "peak_mib": 100 + cpu_s}
        return {"case": case, "number": number, **cost}

    more = [run(fingerprints.WITH, n, cpu_s) for n, cpu_s in enumerate((99.0, 11.0, 12.0, 40.0))]
    less = [run(fingerprints.WITHOUT, n, cpu_s) for n, cpu_s in enumerate((99.0, 10.0, 10.0, 9.0))]
    costs = fingerprints.medians([*more, *less])
    assert fingerprints.ratios(costs)[:2] == (1.2, 1.2)
    assert "| ratio | 1.20 | 1.20 | 1.02 |" in fingerprints.table(costs)


def test_equal_nodes_differ_only_in_hashes_of_what_has_their_identity() -> None:
    template: dict[str, Any] = {
        "sums": {"file": "00"},
        "touched": {"file": {"/etc/hosts": ["a", "b", "3"]}},
    }
    one, other = (fingerprints.as_on(name, template) for name in ("worker1", "worker2"))
    (raw, *rest), (others_raw, *others) = (
        value["touched"]["file"]["/etc/hosts"] for value in (one, other)
    )
    assert raw != others_raw
    assert rest == others == ["b", "3"]
    assert template["touched"]["file"]["/etc/hosts"] == ["a", "b", "3"]


@pytest.mark.parametrize(
    ("findings", "further", "is_right"),
    [
        (("WARNING fingerprint.file  worker5 /etc/simulated/equal.conf",), 2, True),
        (("WARNING fingerprint.file  worker5 /etc/simulated/equal.conf",), 3, False),
        (("WARNING fingerprint.file  worker5 /etc/hosts",), 2, False),
        (("WARNING fingerprint.file  worker5 /etc/simulated/equal.conf", "another"), 2, False),
        ((), 2, False),
    ],
)
def test_a_changed_byte_is_one_finding_and_two_questions(
    findings: tuple[str, ...], further: int, is_right: bool
) -> None:
    assert fingerprints.Byte(findings, further, 2002).is_right is is_right


# -- what peers are asked for


def test_the_playbook_has_all_that_a_worker_is_to_have() -> None:
    node = worker()
    text = json.dumps(playbook.tasks(node, SECRETS))
    wanted = [file.path for file in managed(node, SECRETS)]
    wanted += [
        *node.software.packages,
        *node.system.units,
        *node.system.masked_units,
        *node.system.sysctl,
    ]
    assert [name for name in wanted if name not in text] == []


def test_the_playbook_carries_each_nodes_own_files(tmp_path: Path) -> None:
    node = worker()
    playbook.write(tmp_path, [node], SECRETS, "/ssh_config")
    for file in managed(node, SECRETS):
        assert (tmp_path / "files" / node.name / file.path[1:]).read_bytes() == file.content
    (play,) = json.loads((tmp_path / "site.yml").read_text())
    assert play["tasks"][0]["name"] == "packages: files"
    assert node.name in (tmp_path / "hosts").read_text()


def test_a_playbook_can_know_its_nodes_by_many_names(tmp_path: Path) -> None:
    node = worker()
    playbook.write(tmp_path, [node], SECRETS, "/ssh_config")
    playbook.call(tmp_path, {"name1": node.name, "name2": node.name}, "/of_names")
    hosts = (tmp_path / "hosts").read_text().splitlines()
    assert hosts[:3] == ["[worker]", f"name1 machine={node.name}", f"name2 machine={node.name}"]
    assert "-F /of_names" in (tmp_path / "ansible.cfg").read_text()
    for file in managed(node, SECRETS):
        assert (tmp_path / "files" / "name2" / file.path[1:]).read_bytes() == file.content


def test_testinfra_asks_as_much_of_every_node(tmp_path: Path) -> None:
    nodes = list(consistent().plan.nodes.values())
    assertions.write(tmp_path, nodes)
    for node in nodes:
        text = (tmp_path / f"test_{node.name}.py").read_text()
        compile(text, node.name, "exec")
        assert text.count("def test_") == assertions.EACH
        assert "munge.key" not in text


def test_the_installation_by_hand_has_every_package_at_its_version() -> None:
    node = worker()
    script = series.installation(node)
    assert [name for name in node.software.packages if name not in script] == []
    assert f"slurmd={node.software.versions['slurmd']}" in script
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0


def test_every_peer_is_pinned_with_a_hash() -> None:
    text = REQUIREMENTS.read_text(encoding="utf-8")
    pinned = [line for line in text.splitlines() if "==" in line]
    assert {line.split("==")[0] for line in pinned} >= {"ansible-core", "mitogen", "asyncssh"}
    assert text.count("--hash=sha256:") > len(pinned)


def test_peers_that_cannot_be_installed_are_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = ensure(tmp_path / "file" / "peers")
    assert isinstance(said, str)
    assert "failed with exit status 1" in said
