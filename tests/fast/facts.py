"""A fact and an operation of files, as small as they can be; for deploys of these tests."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from pyinfra import host
from pyinfra.api import FactBase, FactProcessError, operation
from typing_extensions import override

from lockstep.fast import foreseen
from lockstep.fast.connector import read_anew_after

foreseen.READ_ONLY += (__name__,)


class Text(FactBase[str]):
    """Returns what is in a file, "" without one."""

    @override
    def command(self, path: str) -> str:
        return f"cat {path} 2>/dev/null; echo end"

    @override
    def process(self, output: list[str]) -> str:
        return "\n".join(output[:-1])


class Fails(FactBase[str]):
    """Has no answer, and writes down that it was asked."""

    @override
    def command(self) -> str:
        return "echo asked >> files/asked; exit 1"


@operation()
def text(path: str, content: str) -> Generator[str, None, None]:
    """Bring a file to its content."""
    found = host.get_fact(Text, path=path)
    host.log(f"{path} has {found!r}")
    if found == content:
        host.noop(f"{path} is as planned")
    else:
        yield f"echo {content} > {path}"


class Count(FactBase[str]):
    """Returns how many lines a file has; writes down each command that reads it."""

    @override
    def command(self, path: str) -> str:
        return f"echo one >> files/log; wc -l {path}"

    def command_for_many(self, every: Sequence[dict[str, Any]]) -> str:
        """Return one command; it fails where a file is missing."""
        paths = " ".join(one["path"] for one in every)
        return f"echo many >> files/log; wc -l {paths}"

    def outputs_for_many(
        self, every: Sequence[dict[str, Any]], output: Sequence[str]
    ) -> list[list[str]]:
        """Return the line of each; the last one is wc's sum."""
        return [[" ".join(line.split())] for line in output[:-1]]

    @override
    def process(self, output: list[str]) -> str:
        return output[0].split()[0]


class Short(Count):
    """Says of all together what one of them has."""

    @override
    def outputs_for_many(
        self, every: Sequence[dict[str, Any]], output: Sequence[str]
    ) -> list[list[str]]:
        return super().outputs_for_many(every, output)[-1:]


class Starts(FactBase[str]):
    """Returns what was started; starts something else where nothing was."""

    ahead_only_if = "echo asked >> files/asked; [ -e files/started ]"

    @override
    def command(self) -> str:
        return "cat files/started 2>/dev/null || echo early | tee files/early"

    @override
    def process(self, output: list[str]) -> str:
        return output[0]


@operation()
def uses() -> Generator[str, None, None]:
    """Say what was started."""
    host.noop(host.get_fact(Starts))
    yield from ()


@operation()
def other(node: str, path: str) -> Generator[str, None, None]:
    """Say what another host has, of which this one is asked."""
    read_anew_after(host, node)
    host.log(f"it has {host.get_fact(Text, path=path)!r}")
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
