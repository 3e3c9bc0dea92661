"""Many commands in one execution: a script for the standard input of a shell, and its answers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyinfra.connectors.util import CommandOutput, OutputLine


@dataclass(frozen=True)
class Answer:
    """What one command said."""

    ok: bool
    output: CommandOutput


def script(commands: Sequence[str], token: str) -> str:
    """Return a script that runs commands one after the other, each as if it were alone.

    Args:
        commands: for ``sh``.
        token: stands between their outputs; nobody can foresee it.
    """
    each = "\n".join(
        # A shell of its own: an exit, or an error of syntax, ends this command only.
        f"sh -c {shlex.quote(command)} </dev/null; "
        f"printf '\\n%s %s\\n' {token} $?; printf '\\n%s\\n' {token} >&2"
        for command in commands
    )
    # In braces the shell reads all of it before it starts: half a script runs nothing.
    return f"{{\n{each}\n}}\n"


def answers(output: CommandOutput, token: str) -> list[Answer]:
    """Return what the commands said, in their order; less than all where it was cut off."""
    errors = (lines for lines, _ in _parts(output.stderr_lines, token))
    return [
        Answer(
            status == "0",
            CommandOutput(
                [OutputLine("stdout", line) for line in said]
                + [OutputLine("stderr", line) for line in complained]
            ),
        )
        for (said, status), complained in zip(
            _parts(output.stdout_lines, token), errors, strict=False
        )
    ]


def _parts(lines: Sequence[str], token: str) -> Iterator[tuple[list[str], str]]:
    part: list[str] = []
    for line in lines:
        mark, _, status = line.partition(" ")
        if mark != token:
            part.append(line)
            continue
        # The mark begins on a line of its own: after whole lines that leaves an empty one.
        yield part[:-1] if part[-1:] == [""] else part, status
        part = []
