"""The suites of tests: what CI chooses, and the closing summary."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest

from scripts.testing import ci, run
from scripts.testing.ci import UnknownChoice, choose
from scripts.testing.outcome import Outcome, closing_line, read
from scripts.testing.processes import ROOT, Job, TimeIsUp, run_together
from scripts.testing.suites import (
    INTEGRATION,
    KERNEL,
    KERNEL_PARTS,
    LAB,
    NESTED,
    SLOW,
    SLOW_PARTS,
    UNIT,
    Suite,
)


def chosen_by(suite: Suite, marks: set[str]) -> bool:
    names = re.sub(r"[a-z]+", lambda m: m[0] if m[0] in WORDS else str(m[0] in marks), suite.marks)
    return bool(eval(names))


WORDS = {"and", "or", "not"}


SUITES = (UNIT, INTEGRATION, NESTED, LAB, SLOW, KERNEL)


@pytest.mark.parametrize(
    "marks",
    [set[str](), {"integration"}, {"nested"}, {"lab"}, {"lab", "slow"}, {"lab", "kernel"}],
)
def test_a_test_is_in_one_suite(marks: set[str]) -> None:
    assert sum(chosen_by(suite, marks) for suite in SUITES) == 1


def test_no_test_is_in_no_suite() -> None:
    for count in range(4):
        for marks in combinations(("integration", "nested", "lab", "slow", "kernel"), count):
            assert any(chosen_by(suite, set(marks)) for suite in SUITES), marks


def test_marks_stay_in_the_files_of_their_suites() -> None:
    """A mark elsewhere takes a test out of the unit tests, and no other suite looks there."""
    marks = re.compile(r"\bmark\.(lab|slow|kernel|integration|nested)\b")
    found: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for mark in marks.findall(path.read_text(encoding="utf-8")):
            found.setdefault(mark, set()).add(str(path.relative_to(ROOT)))
    for suite in (INTEGRATION, NESTED):
        assert found.pop(suite.name) == {word for word in suite.command() if "/test_" in word}
    assert found.keys() == {"lab", "slow", "kernel"}
    assert {str(Path(name).parent) for names in found.values() for name in names} == {"tests/lab"}


def test_all_runs_every_suite() -> None:
    every = {suite.name for stage in run.TARGETS["all"] for suite in stage if suite}
    assert every == {suite.name for suite in SUITES}
    assert None in run.TARGETS["all"][0], "lint"


def test_targets_are_those_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert set(re.findall(r"-m scripts\.testing (\w+)", makefile)) == set(run.TARGETS)
    for name in ("slow", "kernel"):
        assert f"\ntest-{name}: " in makefile


@pytest.mark.parametrize(("mark", "parts"), [("slow", SLOW_PARTS), ("kernel", KERNEL_PARTS)])
def test_every_slow_test_is_in_one_part(mark: str, parts: Mapping[str, Suite]) -> None:
    marked = [
        path.stem
        for path in sorted((ROOT / "tests/lab").glob("test_*.py"))
        if f"mark.{mark}" in path.read_text(encoding="utf-8")
    ]
    assert sorted(name for part in parts.values() for name in part.files) == marked


# --- what CI chooses


def test_the_slower_suites_take_turns() -> None:
    parts = (*SLOW_PARTS, *KERNEL_PARTS)
    first = 10 * len(parts)
    numbers = range(first, first + len(parts) + 1)
    turns = [name for number in numbers for name in choose("", number).suites]
    assert turns == [*parts, "slow-deploys"]
    assert choose("", first).left_out == parts[1:]
    assert choose("", first + 1).why == f"its turn at commit number {first + 1}"


@pytest.mark.parametrize(
    ("wanted", "suites"),
    [
        ("slow-nodes", ("slow-nodes",)),
        ("slow", tuple(SLOW_PARTS)),
        ("kernel", ("kernel",)),
        ("all", (*SLOW_PARTS, *KERNEL_PARTS)),
        ("none", ()),
    ],
)
def test_the_variable_overrides_the_turn(wanted: str, suites: tuple[str, ...]) -> None:
    for number in (100, 101, None):
        assert choose(wanted, number).suites == suites


def test_an_unknown_value_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(UnknownChoice, match=r"=fast: .*\n  allowed  slow-deploys, .*none$"):
        choose("fast", 100)


def test_an_unknown_value_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert ci.main({ci.VARIABLE: "fast"}) == 3
    assert (
        "allowed  slow-deploys, slow-nodes, slow-systems, slow-repair, slow-sites, slow-canary, "
        "slow-changes, slow-silence," in capsys.readouterr().err
    )


def test_where_commits_cannot_be_counted_the_choice_is_fixed_and_says_so(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=unit", "-c", "user.email=unit@localhost")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    assert ci.commits(tmp_path) is None, "no repository"
    git("init", "-q", "whole")
    for subject in ("one", "two", "three"):
        git("-C", "whole", "commit", "-q", "--allow-empty", "-m", subject)
    git("clone", "-q", "--depth", "1", f"file://{tmp_path}/whole", "shallow")
    assert ci.commits(tmp_path / "whole") == 3
    assert ci.commits(tmp_path / "shallow") is None
    choice = choose("", None)
    assert choice.suites == (ci.FIXED,)
    assert "cannot be counted" in choice.why


@pytest.mark.parametrize("wanted", ["slow", "kernel", "all", "none", ""])
def test_the_end_of_the_log_says_what_ran_and_what_did_not(
    wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages: list[run.Stage] = []

    def pretended(asked: tuple[run.Stage, ...], _deadline: float | None) -> Outcome:
        stages.extend(asked)
        return Outcome(passed=5)

    monkeypatch.setattr(ci, "run", pretended)
    assert ci.main({ci.VARIABLE: wanted}) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    ran = {suite.name for stage in stages[1:] for suite in stage if suite}
    ran |= {*SLOW_PARTS} if "slow" in ran else set()
    for name in ci.TURNS:
        (said,) = [line for line in lines[1:] if re.search(rf"[ ,]{name}(?=$|[:,])", line)]
        assert said.startswith("RAN " if name in ran else "NOT RUN "), said
    assert stages[:2] == [ci.MAKE_TEST, run.WHOLE_RUNS]
    (said,) = [line for line in lines if line.startswith("RAN ")]
    assert said.split("make test, ")[1].startswith("integration, nested")
    assert re.fullmatch(r"=+ 5 passed, 0 failed, 0 skipped in \S+s \(0:00:00\) =+", last)


# --- closing lines


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("======== 12 passed in 0.52s ========", Outcome(12)),
        ("1 failed, 7 passed, 2 skipped, 30 deselected in 61.2s (0:01:01)", Outcome(7, 1, 2)),
        ("== 3 passed, 1 warning, 2 errors in 1.00s ==", Outcome(3, errors=2)),
        ("=== 1 skipped, 1 error in 1.00s ===", Outcome(skipped=1, errors=1)),
    ],
)
def test_a_closing_line_is_read(line: str, outcome: Outcome) -> None:
    assert read(["tests/test_x.py ..", line, ""], 0 if outcome.succeeded else 1) == outcome


@pytest.mark.parametrize("lines", [["3 passed in 1.00s"], ["no tests ran in 0.01s"], []])
def test_a_run_that_fails_without_a_failed_test_is_an_error(lines: list[str]) -> None:
    assert read(lines, 2).errors == 1


def test_outcomes_are_summed_up_in_one_line() -> None:
    total = Outcome(3700, 0, 9) + Outcome(55, 1, 0)
    assert closing_line(total, 3725.5) == (
        "===== 3755 passed, 1 failed, 9 skipped in 3725.50s (1:02:05) ====="
    )
    assert "0 skipped, 2 errors in" in closing_line(Outcome(errors=2), 1.0)
    assert not total.succeeded
    assert read([closing_line(total, 3725.5)], 1) == total


# --- processes


def shell(name: str, *scripts: str) -> Job:
    return Job(name, [["sh", "-c", script] for script in scripts])


def test_jobs_run_at_the_same_time_and_their_lines_have_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wait = (
        "while [ ! -e {0}/{2} ]; do touch {0}/{1}; sleep 0.05; done; touch {0}/{1}; echo {1} ended"
    )
    jobs = [
        shell("a", wait.format(tmp_path, "a", "b")),
        shell("b", wait.format(tmp_path, "b", "a")),
    ]
    run_together(jobs, time.monotonic() + 60)
    assert [(job.status, job.lines) for job in jobs] == [(0, ["a ended"]), (0, ["b ended"])]
    assert sorted(capsys.readouterr().out.splitlines()) == ["a      | a ended", "b      | b ended"]


def test_a_command_that_fails_keeps_the_others_from_nothing() -> None:
    job = shell("lint", "exit 3", "echo second")
    run_together([job])
    assert (job.status, job.failed, job.lines) == (3, ["sh -c exit 3"], ["second"])


@pytest.mark.timeout(60)
def test_what_is_still_running_at_the_deadline_is_stopped_with_its_children(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    job = shell("long", f"trap 'touch {ended}; exit 1' INT; sleep 300 & wait; sleep 300")
    began = time.monotonic()
    with pytest.raises(TimeIsUp, match="long"):
        run_together([job], began + 1)
    assert time.monotonic() - began < 30
    assert ended.exists()
    assert job.status != 0


def test_no_job_starts_after_the_deadline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "run_together", lambda *_: pytest.fail("a job was started"))
    outcome = run.run([(None, UNIT)], time.monotonic())
    assert outcome == Outcome(errors=2)
    assert capsys.readouterr().out == "ERROR lint, unit: not started before the time limit\n"


def test_a_job_that_starts_while_the_others_are_stopped_is_stopped_as_well() -> None:
    began = time.monotonic()
    with pytest.raises(TimeIsUp):
        run_together([shell("late", "exec sleep 60")], began)
    assert time.monotonic() - began < 30


HANGING = """\
import signal, time

def test_first(): pass

def test_hangs():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])  # pytest-timeout's
    time.sleep(60)

def test_last(): pass
"""


def test_a_unit_test_that_no_exception_can_end_fails_and_ends_the_suite(tmp_path: Path) -> None:
    (tmp_path / "test_before.py").write_text("def test_before(): pass\n")
    (tmp_path / "test_hanging.py").write_text(HANGING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    options = UNIT.command()[UNIT.command().index("-n") : -1]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-o", "faulthandler_timeout=1", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert "test_hangs" in done.stderr, "the stack of the hanging test"
    assert "crashed while running 'test_hanging.py::test_hangs'" in done.stdout
    assert " 1 failed, 2 passed in " in done.stdout
    assert done.returncode == 1


def test_a_job_that_cannot_start_has_failed() -> None:
    job = Job("none", [["/nowhere/pytest"]])
    run_together([job])
    assert job.status != 0
