"""Runs commands on a lab's nodes that are not part of a measurement."""

from __future__ import annotations

import shlex
import subprocess

from benchmarks.speed.errors import BenchmarkError
from lab.state import LabState


def on(lab: LabState, node: str, command: str) -> str:
    """Run a shell command as root on a node; return its output.

    Raises:
        BenchmarkError: it failed.
    """
    words = ("ssh", "-F", lab.ssh_config, node, f"sudo -n sh -c {shlex.quote(command)}")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{node}: {command}: {done.stderr.strip()}")
    return done.stdout
