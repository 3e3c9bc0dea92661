"""A batch gives of each command what it gives alone."""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyinfra.connectors.util import CommandOutput, OutputLine, run_local_process

from lockstep.fast.batch import MOST_LANES, Answer, answers, script

COMMANDS = {
    "lines": "echo a; echo b",
    "no end of line": "printf a",
    "nothing": ":",
    "an empty line": "echo",
    "empty lines": "printf 'a\\n\\n\\n'",
    "an empty line first": "printf '\\na'",
    "errors": "echo a; echo wrong >&2; printf 'more' >&2",
    "a status": "echo a; exit 3",
    "a signal": "kill -9 $$",
    "an error of syntax": "if then",
    "an open quote": "echo 'a",
    "an open brace": "{ echo a",
    "a reader of standard input": "cat; echo end",
    "quotes": """echo "it's" '$HOME' \\\\ `echo back`""",
    "a set option": "set -e; false; echo never",
    "a here document": "cat <<X\na\nX\n",
    "the mark of another run": "echo 0123abcd 0",
    "letters": "printf 'ä€\\n'",
}
TOKEN = "f00d"


def alone(command: str) -> tuple[bool, CommandOutput]:
    status, output = run_local_process(
        f"sh -c '{command.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'"
    )
    return status == 0, output


def batch(commands: list[str]) -> CommandOutput:
    return run_local_process("sh", stdin=script(commands, TOKEN))[1]


def printed(*lines: str) -> CommandOutput:
    return CommandOutput([OutputLine("stdout", line) for line in lines])


def on(processors: int, folder: Path, commands: list[str]) -> Mapping[int, Answer]:
    """Run a batch where a login may use so many processors."""
    nproc = folder / "nproc"
    nproc.write_text(f"#!/bin/sh\necho {processors}\n")
    nproc.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        return answers(batch(commands), TOKEN)


@pytest.fixture(scope="module", params=[1, 2, 3, 64])
def together(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[bool, CommandOutput]]:
    said = on(request.param, tmp_path_factory.mktemp("bin"), list(COMMANDS.values()))
    assert sorted(said) == list(range(len(COMMANDS)))
    return {name: (said[i].ok, said[i].output) for i, name in enumerate(COMMANDS)}


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_it_says_alone(
    name: str, together: dict[str, tuple[bool, CommandOutput]]
) -> None:
    ok, output = alone(COMMANDS[name])
    assert together[name][0] == ok
    assert together[name][1].stdout_lines == output.stdout_lines
    if name == "a signal":
        return  # the shell around it says so, where there is one
    # A shell names itself and the line in its own errors; nobody reads that from a fact.
    assert len(together[name][1].stderr_lines) == len(output.stderr_lines)


def test_of_a_batch_that_was_cut_off_only_whole_answers_count(tmp_path: Path) -> None:
    cut = on(1, tmp_path, ["echo a", "kill -9 $PPID; echo b", "echo c"])
    assert {number: one.output.stdout_lines for number, one in cut.items()} == {0: ["a"]}


def test_a_lane_that_was_cut_off_leaves_nothing_in_the_answers_of_another(tmp_path: Path) -> None:
    cut = on(3, tmp_path, ["echo a", "echo half; printf more; kill -9 $PPID", "echo c"])
    assert {number: one.output.stdout_lines for number, one in cut.items()} == {0: ["a"], 2: ["c"]}


def test_an_answer_that_was_cut_off_in_its_errors_does_not_count() -> None:
    lines = [f"{TOKEN} 0", "a", f"{TOKEN} 0 0", "wro", f"{TOKEN} 1", "b", f"{TOKEN} 1 0", "", TOKEN]
    packed = base64.b64encode(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    said = answers(printed("Welcome!", f"{TOKEN} {packed.decode()}", "Bye"), TOKEN)
    assert {number: one.output.stdout_lines for number, one in said.items()} == {1: ["b"]}


def test_packed_answers_that_were_cut_off_give_whole_ones_or_none() -> None:
    # Without a pattern, so that there is more than one block of gzip's.
    output = batch([f"head -c 30000 /dev/urandom | base64 -w 100; echo {n}" for n in range(4)])
    whole = answers(output, TOKEN)
    packed = output.stdout_lines[-1]
    counts = []
    for length in range(0, len(packed), 997):
        cut = answers(printed(packed[:length]), TOKEN)
        counts.append(len(cut))
        assert all(whole[number] == one for number, one in cut.items())
    assert len(whole) == 4
    assert counts == sorted(counts), "the more has arrived the more is answered"
    assert set(counts) >= {0, 1, 2}


@pytest.mark.parametrize("said", ["sorry", "c29ycnk=", "H4sI", ""])
def test_what_is_not_packed_gives_no_answer(said: str) -> None:
    assert answers(printed(said), TOKEN) == {}
    assert answers(printed(f"{TOKEN} {said}"), TOKEN) == {}


def test_what_is_no_text_ends_the_answers(tmp_path: Path) -> None:
    """As in pyinfra, whose reader of lines ends there; who asks reads it as usual."""
    said = on(1, tmp_path, ["echo a", "printf '\\377\\n'", "echo c"])
    assert {number: one.output.stdout_lines for number, one in said.items()} == {0: ["a"]}


def test_commands_run_side_by_side_on_as_many_processors_as_there_are(tmp_path: Path) -> None:
    # Each waits until all four have begun, at most five seconds.
    here = f"[ $(ls {tmp_path} | grep -c '^[0-9]') -ge 4 ]"
    wait = f"for try in $(seq 100); do if {here}; then break; fi; sleep 0.05; done; {here}"
    met = on(4, tmp_path, [f": > {tmp_path}/$$; {wait} && echo {number}" for number in range(4)])
    assert [met[number].output.stdout_lines for number in range(4)] == [["0"], ["1"], ["2"], ["3"]]


def test_at_most_so_many_run_at_a_time(tmp_path: Path) -> None:
    count = f": > {tmp_path}/$$; sleep 0.2; ls {tmp_path} | grep -c '^[0-9]'; rm {tmp_path}/$$"
    said = on(1000, tmp_path, [count] * (3 * MOST_LANES))
    at_a_time = [int(one.output.stdout_lines[0]) for one in said.values()]
    assert len(at_a_time) == 3 * MOST_LANES
    assert 1 < max(at_a_time) <= MOST_LANES


def test_much_output_of_a_lane_waits_without_being_mixed(tmp_path: Path) -> None:
    said = on(4, tmp_path, [f"seq {number} 50000" for number in range(8)])
    for number in range(8):
        lines = said[number].output.stdout_lines
        assert lines == [str(each) for each in range(number, 50001)]


def test_a_node_that_does_not_count_its_processors_runs_one_after_the_other(
    tmp_path: Path,
) -> None:
    nproc = tmp_path / "nproc"
    nproc.write_text("#!/bin/sh\nexit 1\n")
    nproc.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        said = answers(batch(["echo a", "echo b"]), TOKEN)
    assert [said[number].output.stdout_lines for number in (0, 1)] == [["a"], ["b"]]


def test_half_a_script_runs_nothing() -> None:
    whole = script(["echo a", "echo b"], TOKEN)
    _, output = run_local_process("sh", stdin=whole[: whole.index("echo b")])
    assert output.stdout_lines == []
