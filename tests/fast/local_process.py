"""Runs a command on this machine, with its input and output passed on line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

from gevent import spawn
from gevent.subprocess import PIPE, Popen
from paramiko import Channel
from pyinfra.connectors.util import CommandOutput, OutputLine

from lockstep.fast.reader import Reader


def talk_to(
    command: str, stdin: Any, note: Callable[[str], None] = lambda line: None
) -> tuple[bool, CommandOutput]:
    """Run a command; return whether it succeeded, and its output.

    Args:
        command: for ``sh``.
        stdin: as pyinfra accepts it; with a reader, the output is passed on to it.
        note: is called with each line of a reader's input before that line is sent.
    """
    process = Popen(command, shell=True, stdin=PIPE, stdout=PIPE, stderr=PIPE)

    def lines() -> Iterable[str]:
        return (line.decode() for line in process.stdout)

    def close() -> None:
        process.stdin.close()

    channel = cast(Channel, SimpleNamespace(close=close))
    shown = stdin.pass_on(lines(), channel) if isinstance(stdin, Reader) else lines()
    out, err = spawn(list, shown), spawn(process.stderr.read)
    try:
        for line in [stdin] if isinstance(stdin, str) else stdin or ():
            if isinstance(stdin, Reader):
                note(line)
            process.stdin.write(line.rstrip("\n").encode() + b"\n")
            process.stdin.flush()
        process.stdin.close()
    except BrokenPipeError:
        pass  # the command has ended; its status is the result
    said = [OutputLine("stdout", line.rstrip("\n")) for line in out.get()]
    said += [OutputLine("stderr", line) for line in err.get().decode().splitlines()]
    return process.wait() == 0, CommandOutput(said)
