"""Runs of pyinfra's command line on this machine, and how many executions they took."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

INVENTORY = """\
from types import SimpleNamespace as _Is
import tests.fast.facts as _foreseen  # with it they may be foreseen
hosts = [("@here-ahead/node1", {"plan": _Is(spec=_Is(name="c"))})]
"""
IMPORTS = """\
from pyinfra import host
from pyinfra.api import FunctionCommand, operation
from tests.fast.facts import *
"""


@dataclass(frozen=True)
class Ran:
    """What a run said and executed."""

    said: str
    executed: tuple[str, ...]


class Machine:
    """A folder with a deploy; its facts and operations are about files below ``/files``."""

    def __init__(self, folder: Path) -> None:
        """Register the connectors as pyinfra finds connectors: by entry points."""
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        metadata = folder / "here-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: here\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(
            "[pyinfra.connectors]\nhere-ahead = tests.fast.here:Ahead\n"
        )
        self.inventory = INVENTORY

    @property
    def kept(self) -> Path:
        """Where the facts of its deploy are kept."""
        return self.folder / "state" / "lockstep" / "c" / "facts" / "deploy" / "node1.json"

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
