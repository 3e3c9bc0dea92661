"""A minimal question and operation about files, for the deploys of these tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

from pyinfra import host
from pyinfra.api import FactBase, FactProcessError, operation
from typing_extensions import override

from lockstep.facts.reading import ask
from lockstep.facts.settings import kernel_files
from lockstep.fast.connector import read_anew_after
from lockstep.question import Question, Taken


def line_of(path: str) -> Question[str]:
    """Ask for the first line of a file of this machine, "" without one."""
    whole = str(Path(path).absolute())
    lines = kernel_files((whole,))

    def answer(taken: Taken) -> str:
        return lines.answer(taken).get(whole, "")

    return Question(path, lines.readings, answer, lines.about)


@operation()
def text(path: str, content: str) -> Generator[str, None, None]:
    """Bring a file to its content."""
    found = ask(host, line_of(path))
    host.log(f"{path} has {found!r}")
    if found == content:
        host.noop(f"{path} is as planned")
    else:
        yield f"echo {content} > {path}"


@operation()
def other(node: str, path: str) -> Generator[str, None, None]:
    """Say what another host has, of which this one is asked."""
    read_anew_after(host, node)
    host.log(f"it has {ask(host, line_of(path))!r}")
    host.noop("nothing")
    yield from ()


class Answer(FactBase[int]):
    """Returns the number that a command of the shell prints."""

    @override
    def command(self, command: str) -> str:
        return command

    @override
    def process(self, output: list[str]) -> int:
        if output == ["wrong"]:
            raise FactProcessError("no number: wrong")
        return int(output[0])
