"""The programs of benchmarks/ run, print correct numbers, and clean up."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from benchmarks.compare import __main__ as compare
from benchmarks.compare import fingerprints as compare_fingerprints
from benchmarks.fingerprint import __main__ as fingerprint
from benchmarks.fingerprint import on_node
from benchmarks.kernel_settings import __main__ as driver
from benchmarks.kernel_settings import figures
from benchmarks.kernel_settings.figures import Neighbour, Process

SOURCES = Path(driver.__file__).parent
STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def compiled(compiler: str, program: str, folder: Path) -> Path:
    path = shutil.which(compiler)
    if path is None:
        pytest.skip(f"no {compiler}")
    options = ("-Wall", "-Werror") if compiler == "tcc" else STRICT
    built = folder / f"{program}-{compiler}"
    argv = [path, *options, "-o", str(built), str(SOURCES / f"{program}.c")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return built


@pytest.fixture(params=["tcc", "cc"])
def chase(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return compiled(request.param, "chase", tmp_path)


@pytest.fixture(params=["tcc", "cc"])
def jitter(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return compiled(request.param, "jitter", tmp_path)


def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize("spread", ["lines", "pages"])
def test_chase_counts_its_pages(chase: Path, spread: str) -> None:
    seen = json.loads(run(chase, "small", spread, "8", "0.05", "3").stdout)
    assert (seen["pages"], seen["spread"], seen["mib"], seen["rounds"]) == ("small", spread, 8, 3)
    assert 2048 <= seen["touch_faults"] < 2148  # one for each page of 4 KiB, few others
    assert seen["page_table_kib"] >= 16  # 8 bytes for each
    assert seen["chase_faults"] < 50
    assert 0 < seen["ns_min"] <= seen["ns_median"] <= seen["ns_max"]
    assert figures.cpu_list(seen["cpus_allowed"]) == os.sched_getaffinity(0)


def test_chase_takes_huge_pages_or_says_what_to_do(chase: Path) -> None:
    done = run(chase, "huge", "lines", "4", "0.05", "1")
    if done.returncode == 0:
        assert json.loads(done.stdout)["touch_faults"] < 100
    else:
        assert done.returncode == 1
        assert "needs 2 free huge pages of 2 MiB, found" in done.stderr
        assert "vm.nr_hugepages" in done.stderr


@pytest.mark.parametrize("words", [(), ("big", "lines", "8"), ("small", "lines", "3")])
def test_chase_refuses_what_it_cannot_do(chase: Path, words: tuple[str, ...]) -> None:
    assert run(chase, *words).returncode == 2


def test_jitter_prints_sense(jitter: Path) -> None:
    seen = json.loads(run(jitter, "0.2").stdout)
    assert seen["threshold_us"] == 100
    assert seen["wakes"] == 200
    assert seen["readings"] > 100
    assert 0 <= seen["lost_percent"] <= 100
    assert seen["longest_gap_us"] >= seen["reading_us"] > 0
    assert 0 < seen["late_median_us"] <= seen["late_p99_us"] <= seen["late_max_us"]


def test_jitter_sees_that_another_has_its_cpu(jitter: Path) -> None:
    taskset = shutil.which("taskset")
    if taskset is None:
        pytest.skip("no taskset")
    cpu = str(min(os.sched_getaffinity(0)))
    busy = subprocess.Popen([taskset, "-c", cpu, "sh", "-c", "while :; do :; done"])
    try:
        seen = json.loads(run(taskset, "-c", cpu, jitter, "1").stdout)
    finally:
        busy.kill()
        busy.wait()
    assert seen["cpus_allowed"] == cpu
    assert seen["off_cpu_percent"] > 20
    assert seen["lost_percent"] > 20
    assert seen["switched_out"] > 0


def samples() -> list[dict[str, Any]]:
    """Three rounds of made-up figures: 100, 110 and 90, doubled where a neighbour is loose."""
    fields = {measure.field for measure in figures.MEASURES}
    return [
        {"case": case.name, **dict.fromkeys(fields, value * factor)}
        for value in (100, 110, 90)
        for case in figures.CASES
        for factor in [2 if case.neighbour is Neighbour.LOOSE else 1]
    ]


def test_rows_compare_with_the_first_case() -> None:
    found = figures.rows(samples())
    assert len(found) == sum(len(measure.cases) for measure in figures.MEASURES)
    loose = next(row for row in found if row.case == figures.MEMORY_LOOSE.name)
    assert (loose.median, loose.lowest, loose.highest, loose.ratio) == (200, 180, 220, 2)
    assert {row.ratio for row in found} == {1, 2}


def test_no_ratio_to_nothing() -> None:
    nothing = [{**one, "lost_percent": 0} for one in samples()]
    lost = [row for row in figures.rows(nothing) if "lost" in row.measure]
    assert {row.ratio for row in lost} == {None}
    assert figures.table(lost).count("| - | - |") == len(lost)


def test_a_case_without_a_sample_is_no_table() -> None:
    with pytest.raises(ValueError, match="no sample of case 'latency, alone'"):
        figures.rows(one for one in samples() if one["case"] != figures.LATENCY_ALONE.name)


def test_table_is_markdown() -> None:
    lines = figures.table(figures.rows(samples())).splitlines()
    assert {line.count("|") for line in lines} == {8}
    assert "| ns per access | memory, neighbour loose | 200 | 180 | 220 | 2 x | 2 x |" in lines


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.0001, "0"),
        (0.01234, "0.0123"),
        (1, "1"),
        (12.345, "12.3"),
        (99.97, "100"),
        (123456.7, "123457"),
    ],
)
def test_figure(value: float, shown: str) -> None:
    assert figures.figure(value) == shown


def test_rounds_alternate_and_hold_every_case() -> None:
    assert figures.order(0) == tuple(reversed(figures.order(1)))
    assert len({case.name for case in figures.CASES}) == len(figures.CASES)
    assert {case for measure in figures.MEASURES for case in measure.cases} == set(figures.CASES)


def test_printed_skips_what_others_say() -> None:
    assert figures.printed('srun: hello\n{"a": 1}\n\n') == {"a": 1}
    with pytest.raises(ValueError, match="no line of JSON"):
        figures.printed("nothing\n")


def test_process_is_read_from_proc() -> None:
    me = Path("/proc/self")
    seen = figures.process((me / "status").read_text(), (me / "stat").read_text())
    assert seen.pid == os.getpid()
    assert seen.cpus == os.sched_getaffinity(0)
    assert seen.last_cpu in seen.cpus
    assert figures.cpu_list("0,2-4\n") == {0, 2, 3, 4}


HELD = Process(pid=7, cpus=frozenset({0, 2}), last_cpu=0, ticks=10)
LOOSE = replace(HELD, cpus=frozenset({1}), last_cpu=1)


@pytest.mark.parametrize(
    ("kind", "before", "changes", "says"),
    [
        (Neighbour.HELD, HELD, {"ticks": 20}, None),
        (Neighbour.LOOSE, LOOSE, {"ticks": 20}, None),
        (Neighbour.HELD, HELD, {}, "no CPU time"),
        (Neighbour.HELD, HELD, {"ticks": 20, "pid": 8}, "restarted"),
        (Neighbour.HELD, HELD, {"ticks": 20, "cpus": frozenset({0, 1})}, "expected without 1"),
        (Neighbour.LOOSE, HELD, {"ticks": 20}, "CPUs 0,2; expected only 1"),
    ],
)
def test_misplaced(
    kind: Neighbour, before: Process, changes: dict[str, Any], says: str | None
) -> None:
    found = figures.misplaced(kind, before, replace(before, **changes), 1)
    assert found is None if says is None else says in (found or "")


@dataclass(frozen=True)
class Node(driver.Lab):
    """A lab that answers as a good one does; keeps what it was asked."""

    name: str | None = None
    asked: list[str] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    cpus: list[str] = field(default_factory=lambda: ["0,2"])

    def _answer(self, line: str) -> str:
        for words, answer in self.answers.items():
            if words in line:
                if isinstance(answer, BaseException):
                    raise answer
                return str(answer)
        if "tcc=" in line:
            return "tcc=/usr/bin/tcc\nheader=x\nsystemd_run=x\nhuge_free=64\nonline=0-3\ncpu=TCG\n"
        if "systemd-run" in line:
            self.cpus[0] = "1" if "AllowedCPUs=0-3" in line else "0,2"
        if "sinfo" in line:
            return "idle\n"
        if "Cpus_allowed_list" in line:
            return "Cpus_allowed_list:\t1\n"
        if "MainPID" in line:
            numbers = " ".join(["0"] * 10 + [str(len(self.asked)), "0"] + ["0"] * 30)
            return f"Pid:\t7\nCpus_allowed_list:\t{self.cpus[0]}\n==\n7 (sh) R {numbers}\n"
        if line.startswith("head: srun"):
            return json.dumps(dict.fromkeys((m.field for m in figures.MEASURES), 5)) + "\n"
        return ""

    @override
    def run(
        self, node: str, *command: str, given: str | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        line = f"{node}: {' '.join(command)}"
        self.asked.append(line)
        return subprocess.CompletedProcess([], 0, self._answer(line), "")


def bench(**answers: Any) -> tuple[driver.Bench, list[str]]:
    lab = Node(answers=answers)
    return driver.Bench(lab, "head", "worker1", 64, 1, "cafe"), lab.asked


CLEANED = ["scancel --name=kernel-settings-cafe", "rm -rf /tmp/lockstep-kernel-settings-cafe"]


def assert_cleaned(asked: list[str]) -> None:
    assert all(words in line for words, line in zip(CLEANED, asked[-2:], strict=True))
    assert "systemctl stop lockstep-neighbour-cafe.service" in asked[-1]


def test_whole_run(capsys: pytest.CaptureFixture[str]) -> None:
    one, asked = bench()
    content = json.loads(driver.measure(one, 2, "the command"))
    assert len(content["samples"]) == 2 * len(figures.CASES)
    assert content["job_cpu"] == 1
    assert {tuple(s["neighbour_cpus"]) for s in content["samples"] if "neighbour_cpus" in s} == {
        (0, 2),
        (1,),
    }
    printed = capsys.readouterr().out
    assert printed.startswith("`the command`\nTCG, ")
    assert "| longest gap, µs | latency, alone | 5 | 5 | 5 | 1 x | 1 x |" in printed
    started = [line for line in asked if "systemd-run --quiet" in line]
    assert [("CPUAffinity=1" in line) for line in started] == [False, True, True, False]
    assert all("taskset -c 1" in line for line in asked if "head: srun" in line and "/tmp/" in line)
    assert_cleaned(asked)


@pytest.mark.parametrize(
    ("words", "failure"),
    [
        ("worker1: mkdir", KeyboardInterrupt()),
        ("jitter 1", KeyboardInterrupt()),
        ("jitter 1", driver.BenchmarkError("no allocation")),
        ("MainPID", KeyboardInterrupt()),
    ],
)
def test_cleans_up_whatever_happens(words: str, failure: BaseException) -> None:
    one, asked = bench(**{words: failure})
    with pytest.raises(type(failure)):
        driver.measure(one, 1, "")
    assert_cleaned(asked)


def test_a_neighbour_that_is_not_held_is_no_result() -> None:
    one, asked = bench(MainPID="Pid: 7\nCpus_allowed_list: 0-3\n==\n7 (sh) R" + " 0" * 50)
    with pytest.raises(
        driver.BenchmarkError, match="invalid neighbour process: it used no CPU time"
    ):
        driver.measure(one, 1, "")
    assert_cleaned(asked)


def test_refuses_with_everything_that_is_missing_and_touches_nothing() -> None:
    one, asked = bench(**{"tcc=": "tcc=\nheader=\nsystemd_run=x\nhuge_free=3\n", "sinfo": "none"})
    with pytest.raises(driver.BenchmarkError) as failure:
        driver.measure(one, 1, "")
    for words in (
        "tcc is missing",
        "libc6-dev",
        "3 free huge pages of 2 MiB; 32 are needed",
        "head: srun is not installed",
    ):
        assert words in str(failure.value)
    assert len(asked) == 2


def test_refuses_a_node_with_other_jobs() -> None:
    one, _ = bench(sinfo="mixed\n")
    with pytest.raises(driver.BenchmarkError, match="Slurm state mixed; expected idle"):
        driver.measure(one, 1, "")


def test_a_missing_lab_is_reported_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["--lab", "no-such-lab-here"]) == 1
    assert "failed with exit status" in capfd.readouterr().err


def test_a_comparison_is_measured_from_its_start_to_its_end() -> None:
    cost = compare.measured("one differs", 3, compare.one_of_a_hundred)
    # The peak is that of this process, in which other tests have run before.
    assert (cost.nodes, replace(cost, peak_mib=100.0).kept) == (3, True)
    assert cost.lines > 2, "a finding and the summary"
    assert replace(cost, nodes=2000, rules_s=11.0).kept is False
    assert "| 3 | one differs |" in compare.table([cost])


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a node's configuration, with three files, and one service."""
    folder, services = tmp_path / "etc", tmp_path / "services"
    for path in (folder, services / "dbus.service"):
        path.mkdir(parents=True)
    for name in ("a", "b", "c"):
        (folder / name).touch()
    (services / "dbus.service" / "cpu.stat").write_text("usage_usec 500000\nuser_usec 1\n")
    monkeypatch.setattr(on_node, "ETC", str(folder))
    monkeypatch.setattr(on_node, "FOLDER", str(folder / "added"))
    monkeypatch.setattr(on_node, "SERVICES", str(services))
    return folder


def asked(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    commands = dict.fromkeys((fingerprint.WITH, fingerprint.WITHOUT), (command, "input"))
    question = {"files": 120, "repeat": 2, "commands": commands}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(question) + "\n"))


def test_files_are_added_while_the_probe_runs(
    etc: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked(monkeypatch, f"find {etc} -type f | wc -l; cat; echo 700000 >&2; {INCREASE}")
    monkeypatch.setenv("STAT", str(etc.parent / "services" / "dbus.service" / "cpu.stat"))
    on_node.main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["added"] == 117
    assert answer["outputs"] == {"with": "120\ninput", "without": "120\ninput"}
    for costs in answer["costs"].values():
        assert [round(run["dbus.service"], 6) for run in costs] == [0.25, 0.25]
        assert all(run["probe"] > 0 and run["PID 1"] >= 0 for run in costs)
    assert sorted(path.name for path in etc.iterdir()) == ["a", "b", "c"]


INCREASE = """
read name used <"$STAT"; echo "usage_usec $((used + 250000))" >"$STAT"
"""


def test_files_are_removed_when_the_probe_fails(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, "echo no such thing >&2; exit 3")
    with pytest.raises(SystemExit, match="exit status 3: no such thing"):
        on_node.main()
    assert not (etc / "added").exists()


def test_what_the_fingerprint_adds_is_the_median_of_pairs() -> None:
    def run(probe: float, pid_1: float, slurmd: float) -> dict[str, float]:
        return {"probe": probe, "PID 1": pid_1, "slurmd.service": slurmd}

    answer = fingerprint.Answer(
        {
            fingerprint.WITHOUT: [run(1, 0.1, 0), run(2, 0.1, 0), run(5, 0.1, 0)],
            fingerprint.WITH: [run(1.5, 0.2, 1), run(2.1, 0.2, 1), run(5.3, 0.2, 1)],
        },
        5000,
    )
    found = fingerprint.rows(answer)
    assert found["the probe and its programs"] == pytest.approx((2, 2.1, 0.3))
    assert found[fingerprint.SUM] == pytest.approx((2.1, 2.3, 0.4))
    assert found[fingerprint.SERVICES][2] == 1
    assert "| dbus | 0.000 | 0.000 | 0.000 |" in fingerprint.table(answer)


def test_the_command_of_the_benchmark_is_passed_on_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end with ``--``, and has options of its own."""
    found: list[object] = []

    def measured(way: list[str], node: object, *_: object, keeps: bool) -> fingerprint.Answer:
        found.append((way, keeps))
        raise ValueError("seen")

    monkeypatch.setattr(fingerprint, "measured", measured)
    monkeypatch.setattr(fingerprint, "node_of", lambda *_: None)
    for options, keeps in (([], True), (["--no-kept"], False)):
        words = ["inventory.py", "worker1", *options, "--", "lab", "-v", "run", "worker1", "--"]
        with pytest.raises(SystemExit, match="seen"):
            fingerprint.main(words)
        assert found.pop() == (["lab", "-v", "run", "worker1", "--"], keeps)


def test_a_node_that_looks_as_not_deployed_runs_the_same_command(tmp_path: Path) -> None:
    unshare = tmp_path / "unshare"
    unshare.write_text('#!/bin/sh\ntest "$1" = --mount && shift && exec "$@"\n')
    unshare.chmod(0o755)
    asks = shlex.quote('read x; echo "it\'s $x"')
    line = f"{fingerprint.NOT_DEPLOYED} {asks}"
    done = subprocess.run(
        ["sh", "-c", line],
        input="input\n",
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
    )
    assert done.stdout == "it's input\n"


def test_odd_fingerprints_among_many_are_judged_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare_fingerprints.main(["--nodes", "8", "--odd", "2"]) == 0
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert [(row[1].strip(), row[4].strip()) for row in rows[2:]] == [
        ("without", "0"),
        ("with fingerprints", "2"),
    ]
