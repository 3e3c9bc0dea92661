"""``lockstep plan`` and the messages for wrong arguments."""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typing_extensions import override

from lockstep.__main__ import main
from lockstep.checks.catalogue import all_rules
from lockstep.commands import plan as command
from lockstep.commands import screen, show, write
from tests.plan.example import planned
from tests.spec.example import SOURCE


@pytest.fixture(autouse=True)
def _inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unit.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_the_plan_of_a_cluster_is_one_line_per_kind_of_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "unit.py"]) == 0
    assert capsys.readouterr().out == (
        "cluster unit: 6 nodes, debian_13\n"
        "\n"
        "NODES        COUNT  ROLE    HARDWARE  OS         RUNS\n"
        "head1        1      head    head      debian_13  slurm_controller, slurm_accounting\n"
        "head2        1      head    head      debian_13  prometheus\n"
        "worker[1-4]  4      worker  hgx       debian_13  -\n"
        "\n"
        "Are its versions still in the repositories? lockstep mirror unit.py --check\n"
        "Whole plan of one node: lockstep plan unit.py NODE\n"
    )


def test_the_plan_of_a_cluster_that_is_only_checked_names_the_roles_to_adopt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = planned(lambda wanted: wanted.update(unmanaged=["all"]))
    monkeypatch.setattr(command, "load", lambda _: nothing)
    assert main(["plan", "unit.py"]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("the roles"))
    names = line.partition(": ")[2].split(", ")
    every = planned().nodes.values()
    assert sorted(names) == sorted({role for node in every for role in node.roles})


def test_the_plan_of_a_node_is_one_line_per_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "unit.py", "worker2"]) == 0
    entries, _, hint = capsys.readouterr().out.partition("\n\n")
    assert hint == "What each field becomes: lockstep plan unit.py worker2 --becomes\n"
    said = dict(line.split("  ", 1) for line in entries.splitlines())
    values = {name: value.strip() for name, value in said.items()}
    assert values["management"] == "fd00:1::101"
    assert values["cpus.housekeeping"] == "0,8,16,24"
    assert values["hugepages.2M.1"] == "1024"
    assert values["slurm.RealMemory"] == "58752"
    assert values["packages.slurmd"] == "24.11.5-4"
    assert values["packages.munge"] == "-"
    assert values["runs"] == "-"


@pytest.mark.parametrize(
    "words", [["unit.py"], ["unit.py", "head1"], ["unit.py", "head1", "--becomes"]], ids=" ".join
)
def test_json_is_the_plan_itself(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    cluster = planned()
    becomes = document.pop("becomes", ())
    usual = document.pop("usual_repositories", {})
    assert bool(becomes) == bool(usual) == ("--becomes" in words)
    assert all(one.keys() == {"field", "becomes", "usually_from"} for one in becomes)
    assert {one["usually_from"] for one in becomes if "role" not in one["usually_from"]} <= {*usual}
    assert document == (cluster.nodes["head1"] if "head1" in words else cluster).to_json()


@pytest.mark.parametrize(
    ("node", "expected"),
    [("worker7", "did you mean worker4, worker3 or worker2?"), ("x", "head[1-2],worker[1-4]")],
    ids=["close", "far"],
)
def test_a_node_that_does_not_exist(
    node: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "unit.py", node]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"ERROR unit.py: unknown node '{node}'\n  expected  {expected}\n"


NO_TEXT = (
    "wrong.py:1: source code"
    if sys.version_info >= (3, 11, 4)  # a SyntaxError since then, and a ValueError before
    else "wrong.py: ValueError: source code"
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import os\nnodes = count\n", "wrong.py:2: NameError: name 'count' is not defined"),
        ("def f():\n    return 1 / 0\nf()\n", "wrong.py:2: ZeroDivisionError: division by zero"),
        ("import json\njson.loads('')\n", "wrong.py:2: json.decoder.JSONDecodeError: Expecting"),
        ('{"exit_status": null}', "wrong.py:1: NameError: name 'null' is not defined"),
        ("\0", NO_TEXT),
    ],
    ids=["name", "in a function", "below", "records in its place", "no text"],
)
def test_an_inventory_that_raises_is_wrong_use_and_says_where(
    source: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("wrong.py").write_text(source, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["plan", "wrong.py"])
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"ERROR {expected}")
    assert len(said.err.splitlines()) == 2


@pytest.mark.parametrize("words", [[], ["plam"], ["plan"], ["plan", "unit.py", "--jsn"]])
def test_wrong_use_ends_with_3_and_leaves_standard_output_alone(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("usage: lockstep")


@pytest.mark.parametrize(
    "words", [["plan", "unit.py"], ["rules"], ["plan", "unit.py", "--json"]], ids=" ".join
)
def test_a_reader_that_has_enough_ends_a_command_quietly(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "lockstep", *words]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_file_of_which_a_reader_has_enough_is_no_wrong_use() -> None:
    reader, writer = os.pipe()

    def read() -> None:
        os.read(reader, 1)
        os.close(reader)

    some = threading.Thread(target=read)
    some.start()
    with pytest.raises(BrokenPipeError):
        write(f"/proc/self/fd/{writer}", "lockstep_rules 1\n" * 100_000, 0o644)
    some.join()
    os.close(writer)


def test_the_reasons_of_a_rule_are_text_for_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    for rule in all_rules():
        main(["explain", rule.id])
    said = capsys.readouterr().out
    assert "](" not in said
    assert "on the node  health check (docs/node-check.md)\n" in said


def test_help_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "plan" in capsys.readouterr().out
    assert command.__doc__


def test_an_interrupt_ends_a_command_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "load", interrupted)
    assert main(["plan", "unit.py"]) == 130
    assert capsys.readouterr().err == "\nInterrupted: no node was changed.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc", "unit.py"], "unknown: chekc; did you mean check?"),
        (["x", "unit.py"], "unknown: x; expected accept, check, "),
        (["check", "unit.py", "--severity", "eror"], "unknown: eror; did you mean error?"),
        (
            ["check", "unit.py", "--limt", "a"],
            "unrecognized arguments: --limt a; did you mean --li",
        ),
        (
            ["check", "unit.py", "--htlm=x"],
            "unrecognized arguments: --htlm=x; did you mean --html?",
        ),
        (["plan", "unit.py", "head1", "x"], "unrecognized arguments: x\n"),
    ],
)
def test_a_misspelt_word_has_a_suggestion(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 3
    assert said in capsys.readouterr().err


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "out", "is_coloured"),
    [
        ({}, Terminal(), True),
        ({"NO_COLOR": "1"}, Terminal(), False),
        ({"TERM": "dumb"}, Terminal(), False),
        ({}, io.StringIO(), False),
    ],
)
def test_only_a_terminal_has_colours_and_its_own_size(
    environment: dict[str, str],
    out: io.StringIO,
    is_coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", out)
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"COLUMNS": "200", "LINES": "3", **environment}.items():
        monkeypatch.setenv(name, value)
    show(None, dict, lambda: "ERROR   gpu.count  worker1\n  found     ERROR 7\n")
    red = "\x1b[1;31mERROR\x1b[0m" if is_coloured else "ERROR"
    assert out.getvalue() == f"{red}   gpu.count  worker1\n  found     ERROR 7\n"
    assert screen() == ({"lines": 24, "columns": 200} if out.isatty() else {})
