"""Selected readings are the same as in a whole record."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lockstep.facts import reading
from lockstep.facts.declared import declared
from lockstep.node.readers import collect
from lockstep.probe.lines import ProbeFormatError
from lockstep.probe.ship import PACKAGE, answered, asking, one_line
from lockstep.question import Part
from tests.plan.example import planned


def ask(*names: str, **request: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-"],
        input=asking(frozenset(names), request),
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_reading_is_the_one_of_the_whole_probe(tmp_path: Path) -> None:
    file = tmp_path / "sch\u00f6n"
    file.write_text("foo")
    request = {"files": [str(file), str(tmp_path / "gone")]}
    done = ask("files", "kernel.cmdline", **request)
    whole = collect.collect(request, frozenset({"files", "kernel.cmdline"}))["readings"]
    assert answered(done.stdout.splitlines()) == whole
    assert "os.boot_id" in whole, "one reader takes both"
    assert done.stdout.isascii()


@pytest.mark.parametrize(("told", "status"), [("\n", 0), ("", 1)])
def test_a_program_that_waits_reads_only_when_it_is_told_to(told: str, status: int) -> None:
    program = one_line(asking(frozenset({"kernel.cmdline"}), {}, waits=True))
    done = subprocess.run(
        [sys.executable, "-IS", "-c", "import sys;exec(sys.stdin.readline())"],
        input=f"{program}\n{told}",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, bool(done.stdout)) == (status, bool(told))
    if told:
        assert "kernel.cmdline" in answered(done.stdout.splitlines())


def test_a_program_that_waits_ends_even_if_a_reader_hangs() -> None:
    program = asking(frozenset({"kernel.cmdline"}), {}, waits=True)
    hangs = "import signal, time\nsignal.alarm = lambda _: (alarm(1), time.sleep(30))\n"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", "import sys;exec(sys.stdin.readline())"],
        input=one_line(f"import signal\nalarm = signal.alarm\n{hangs}{program}") + "\n\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.returncode == -signal.SIGALRM


def test_it_fits_into_a_pipe_so_that_a_python_that_hangs_holds_up_no_printf() -> None:
    """See pipe(7): 64 KiB. The command does not wait for printf, which would stay on the node."""
    for node in planned().nodes.values():
        wanted = frozenset[Part]().union(*declared(node))
        assert len(one_line(reading.program(wanted, waits=True))) < 60_000


def test_only_the_modules_that_are_needed_travel() -> None:
    some, every = asking(frozenset({"files"}), {}), asking(frozenset(), {})
    assert len(some) < len(every) / 4


def test_what_a_login_prints_first_is_not_the_answer() -> None:
    lines = ask("kernel.cmdline").stdout.splitlines()
    assert "kernel.cmdline" in answered(["Welcome", "", *lines])


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        (lambda lines: [], "no readings, or was cut off"),
        (lambda lines: lines[:-1], "no readings, or was cut off"),
        (lambda lines: [lines[0], lines[1][:-8], lines[2]], "cannot be unpacked"),
        (lambda lines: [lines[0], lines[1], "Killed"], "do not end with"),
        (lambda lines: ["garbage", "\x00"], "no readings, or was cut off"),
    ],
)
def test_an_answer_that_is_not_whole_is_none(spoilt: Any, said: str) -> None:
    lines = ask("kernel.cmdline").stdout.splitlines()
    with pytest.raises(ProbeFormatError, match=said):
        answered(spoilt(lines))


def test_a_reading_without_a_reader_is_a_programming_error() -> None:
    with pytest.raises(LookupError, match=r"unknown readings: no\.such"):
        asking(frozenset({"files", "no.such"}), {})


def test_an_error_on_the_node_names_the_line_of_its_module() -> None:
    program = asking(frozenset({"files"}), {}).replace('"files", []', "")
    program = program.replace('"read_file', '"no_such_')
    done = subprocess.run(
        [sys.executable, "-"], input=program, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"{PACKAGE.replace('.', '/')}/selected.py" in done.stderr
