"""A fact and an operation of files, as small as they can be; for deploys of these tests."""

from __future__ import annotations

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import FactBase, operation
from typing_extensions import override

from lockstep.fast import foreseen

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
