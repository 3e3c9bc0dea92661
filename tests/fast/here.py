"""This machine as a host whose executions are counted, with and without reading ahead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyinfra.connectors.local import LocalConnector
from pyinfra.connectors.util import CommandOutput
from typing_extensions import override

from lockstep.fast.connector import ReadsAhead


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
        return super().run_shell_command(command, *given, **named)


class Ahead(ReadsAhead, Counted):  # type: ignore[misc]  # to mypy it is on top of ssh
    """The same, reading ahead."""
