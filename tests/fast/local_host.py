"""This machine as a host whose executions are counted, with and without a record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from lockstep.fast.connector import KeepsRecord
from lockstep.fast.reader import Reader
from tests.fast.local_process import talk_to


def note(line: str) -> None:
    """Write a line to the file that EXECUTED names."""
    with Path(os.environ["EXECUTED"]).open("a", encoding="utf-8") as file:
        print(line, file=file)


def note_request(line: str) -> None:
    """Note a request to the process that takes readings, unless it comes with a command."""
    if line.startswith("{") and not json.loads(line)["waits"]:
        note(f"request {line}")


class Counted(LocalConnector):
    """Notes each command that it executes and each request that it sends."""

    @staticmethod
    @override
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        yield name or "here", {}, []

    @override
    def run_shell_command(
        self, command: Any, *given: Any, **named: Any
    ) -> tuple[bool, CommandOutput]:
        stdin = named.get("_stdin")
        if isinstance(stdin, Reader):
            return talk_to(str(command), stdin, note_request)
        note(repr(str(command)))
        return super().run_shell_command(command, *given, **named)


class Recorded(KeepsRecord, Counted):  # type: ignore[misc]  # to mypy it is on top of ssh
    """The same, with a record."""
