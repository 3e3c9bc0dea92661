"""Many commands in one execution: a script for the standard input of a shell, and its answers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
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
        f"e=$(sh -c {shlex.quote(command)} </dev/null 2>&1 >&3 3>&-); "
        f"""printf '\\n%s %s\\n%s\\n%s\\n' {token} $? "$e" {token}"""
        for command in commands
    )
    # In braces the shell reads all of it before it starts: half a script runs nothing. Behind sed,
    # which changes nothing, it comes in packets of 4 KiB: each one costs both sides CPU.
    return f"{{\n{each}\n}} 3>&1 | sed ''\n"


def answers(output: CommandOutput, token: str) -> list[Answer]:
    """Return what the commands said, in their order; less than all where it was cut off."""
    found = []
    said: list[str] = []
    status: str | None = None
    part: list[str] = []
    for line in output.stdout_lines:
        mark, _, rest = line.partition(" ")
        if mark != token:
            part.append(line)
        elif status is None:
            # The mark begins on a line of its own: after whole lines that leaves an empty one.
            said, part, status = part[:-1] if part[-1:] == [""] else part, [], rest
        else:
            complained = [] if part == [""] else part
            lines = [OutputLine("stdout", line) for line in said]
            lines += [OutputLine("stderr", line) for line in complained]
            found.append(Answer(status == "0", CommandOutput(lines)))
            part, status = [], None
    return found
