"""This machine as a host whose executions are counted, with and without a record."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from paramiko import Channel
from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from lockstep.fast.along import Along
from lockstep.fast.connector import KeepsRecord


class Counted(LocalConnector):
    """Writes each command that it executes to the file that EXECUTED names."""

    @staticmethod
    @override
    def make_names_data(name: str | None = None) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        yield name or "here", {}, []

    @override
    def run_shell_command(
        self, command: Any, *given: Any, **named: Any
    ) -> tuple[bool, CommandOutput]:
        with Path(os.environ["EXECUTED"]).open("a", encoding="utf-8") as file:
            print(repr(str(command)), file=file)
        succeeded, output = super().run_shell_command(command, *given, **named)
        ends_nothing = cast(Channel, SimpleNamespace(close=lambda: None))
        lines: Iterable[str] = output.stdout_lines
        if isinstance(stdin := named.get("_stdin"), Along):
            lines = stdin.pass_on(lines, ends_nothing)
        shown = [OutputLine("stdout", line) for line in lines]
        shown += [OutputLine("stderr", line) for line in output.stderr_lines]
        return succeeded, CommandOutput(shown)


class Recorded(KeepsRecord, Counted):  # type: ignore[misc]  # to mypy it is on top of ssh
    """The same, with a record."""
