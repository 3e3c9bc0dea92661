"""The speed suite counts right, delays what it relays, and asks peers for our end state."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.speed import assertions, figures, playbook, promises, relay, series, simulation
from benchmarks.speed.figures import Run
from benchmarks.speed.meter import below
from benchmarks.speed.peers import REQUIREMENTS, ensure
from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.spec import Role
from tests.checks.recorded import SECRETS, consistent

START = Run("rerun", "lockstep", 10, 0.0, 0, wall_s=99.0, cpu_s=99.0, peak_mib=1.0)


def worker() -> NodePlan:
    nodes = consistent().plan.nodes.values()
    return next(node for node in nodes if node.role is Role.WORKER)


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


def test_rows_are_medians_without_the_warm_up_beside_ours() -> None:
    ours, ansible = figures.rows(runs())
    assert (ours.wall_s, ours.fastest_s, ours.slowest_s, ours.runs) == (2.0, 1.0, 9.0, 3)
    assert (ours.wall_ratio, ansible.wall_ratio, ansible.cpu_ratio) == (1.0, 10.0, 10.0)
    assert (ours.cpu_per_node_s, ours.kilobytes_per_node, ours.sessions_per_node) == (0.1, 2.0, 2.0)


def test_ratios_are_of_the_same_place() -> None:
    there = [replace(run, round_trip_ms=20.0, wall_s=run.wall_s * 3) for run in runs()]
    found = figures.rows([*runs(), *there])
    assert [row.wall_ratio for row in found] == [1.0, 10.0, 1.0, 10.0]


def test_without_a_run_of_ours_there_is_no_ratio() -> None:
    (row,) = figures.rows(run for run in runs() if run.series == "ansible")
    assert (row.wall_ratio, row.cpu_ratio) == (None, None)
    assert figures.table([row]).splitlines()[-1].endswith("| - | - |")


def test_nodes_that_were_names_are_said_to_be() -> None:
    assert figures.under_names([replace(run, machines=11) for run in runs()]) == []
    (line,) = figures.under_names([replace(run, machines=3) for run in runs()])
    assert line == "rerun, 10 nodes: names of the lab's 3 machines"


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
        "| rerun | 10 | 20 ms | wall, ansible / ours | at least 40 | 10 | **not kept** |",
    ]


def test_a_check_is_compared_with_the_rerun_of_the_same_lab() -> None:
    check = [replace(run, task="check", nodes=51) for run in runs() if run.series == "lockstep"]
    plain = [
        replace(run, series="plain pyinfra", nodes=50) for run in runs() if run.series == "ansible"
    ]
    (line,) = promises.table(figures.rows([*check, *plain])).splitlines()[2:]
    # 1 s for 51 nodes beside 10 s for 50 nodes
    assert line == "| check | 50 | 0 ms | CPU, plain rerun / ours | at least 10 | 10.2 | kept |"


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


def test_a_process_that_ended_has_no_children() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert below(done.pid) == []


# -- what peers are asked for


def test_the_playbook_has_all_that_a_worker_is_to_have() -> None:
    node = worker()
    text = json.dumps(playbook.tasks(node, SECRETS))
    wanted = [file.path for file in managed(node, SECRETS)]
    wanted += [*node.packages, *node.units, *node.masked_units, *node.sysctl]
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
    assert [name for name in node.packages if name not in script] == []
    assert f"slurmd={node.versions['slurmd']}" in script
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
    assert "ended with 1" in said
