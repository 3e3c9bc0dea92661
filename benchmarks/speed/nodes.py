"""Commands on a lab's nodes, from beside them: never part of what is measured."""

from __future__ import annotations

import shlex
import subprocess

from benchmarks.speed.errors import BenchmarkError
from lab.state import LabState


def on(lab: LabState, node: str, command: str) -> str:
    """Run a command of the shell as root on a node; return what it prints.

    Raises:
        BenchmarkError: it failed.
    """
    words = ("ssh", "-F", lab.ssh_config, node, f"sudo -n sh -c {shlex.quote(command)}")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{node}: {command}: {done.stderr.strip()}")
    return done.stdout
