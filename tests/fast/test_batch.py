"""A batch gives of each command what it gives alone."""

from __future__ import annotations

import pytest
from pyinfra.connectors.util import CommandOutput, run_local_process

from lockstep.fast.batch import answers, script

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


@pytest.fixture(scope="module")
def together() -> dict[str, tuple[bool, CommandOutput]]:
    said = answers(batch(list(COMMANDS.values())), TOKEN)
    assert len(said) == len(COMMANDS)
    return {name: (one.ok, one.output) for name, one in zip(COMMANDS, said, strict=True)}


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


def test_of_a_batch_that_was_cut_off_only_whole_answers_count() -> None:
    cut = batch(["echo a", "kill -9 $PPID; echo b", "echo c"])
    assert [one.output.stdout_lines for one in answers(cut, TOKEN)] == [["a"]]


def test_half_a_script_runs_nothing() -> None:
    whole = script(["echo a", "echo b"], TOKEN)
    _, output = run_local_process("sh", stdin=whole[: whole.index("echo b")])
    assert output.stdout_lines == []
