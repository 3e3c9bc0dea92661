"""A pyinfra connector to hosts that exist in this process only, and are as planned."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any

from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput, OutputLine
from typing_extensions import override

from lockstep.node.readers.selected import END, MARKER
from lockstep.pyinfra_internals import registry

READINGS = {"kernel.release": {"value": "6.12"}, "files": {"value": {}}}
TAKEN = base64.b64encode(zlib.compress(json.dumps(READINGS).encode())).decode()
FILE = "user=root group=root mode=-rw-r--r-- atime=1 mtime=1 ctime=1 size=1 '/etc/hostname'"


class Answering(BaseConnector):
    """Answers a fact about a file, and readings."""

    handles_execution = True

    @staticmethod
    @override
    def make_names_data(name: str) -> Iterator[tuple[str, dict[str, Any], list[str]]]:
        registry.speed_up_deploy()
        yield name, {}, []

    @override
    def run_shell_command(
        self, command: Any, *given: Any, **named: Any
    ) -> tuple[bool, CommandOutput]:
        lines = [MARKER, TAKEN, END] if named.get("_stdin") else [FILE]
        return True, CommandOutput([OutputLine("stdout", line) for line in lines])

    @override
    def put_file(self, *given: Any, **named: Any) -> bool:
        raise NotImplementedError

    @override
    def get_file(self, *given: Any, **named: Any) -> bool:
        raise NotImplementedError
