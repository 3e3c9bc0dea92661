"""Runs pyinfra's command line on this machine and counts the executions."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

INVENTORY = """\
from lockstep.fast import connector as _connector
from tests.fast.facts import line_of as _line_of
_files = [_line_of(f"files/{_number}") for _number in range(25)]
_connector.declared = lambda plan, roles: [_one.parts() for _one in _files]
hosts = [("@here-recorded/node1", {})]
"""
IMPORTS = """\
from pyinfra import host
from pyinfra.api import FunctionCommand, operation
from lockstep.facts.reading import ask
from tests.fast.facts import *
"""


@dataclass(frozen=True)
class Ran:
    """What a run said and executed."""

    said: str
    executed: tuple[str, ...]


class Machine:
    """A folder with a deploy; its questions and operations are about files below ``files/``."""

    def __init__(self, folder: Path) -> None:
        """Register the connectors as pyinfra finds connectors: by entry points."""
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        metadata = folder / "here-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: here\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(
            "[pyinfra.connectors]\nhere-recorded = tests.fast.local_host:Recorded\n"
        )
        self.inventory = INVENTORY

    def deploy(
        self, text: str, *options: str, typed: str = "", status: int = 0, **environment: str
    ) -> Ran:
        """Run a deploy; without options ``-y``."""
        (self.folder / "inventory.py").write_text(self.inventory, encoding="utf-8")
        (self.folder / "deploy.py").write_text(IMPORTS + text, encoding="utf-8")
        executed = self.folder / "executed"
        executed.write_text("")
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pyinfra", *(options or ("-y",))),
                *("inventory.py", "deploy.py"),
            ],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": f"{self.folder}:{ROOT}",
                "XDG_STATE_HOME": str(self.folder / "state"),
                "EXECUTED": str(executed),
                "NO_COLOR": "1",
                **environment,
            },
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        said = done.stdout + done.stderr
        assert done.returncode == status, said
        return Ran(said, tuple(executed.read_text().splitlines()))
