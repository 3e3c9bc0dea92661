"""A node whose GPUs are simulated: the real nvidia-smi over the simulated NVML."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nvml import smi as nvml_smi
from lab.nvml import state
from lockstep.node.readers.gpu import DRIVER
from lockstep.roles.operations import gpu_settings
from tests.nvml.programs import CACHE, SimulatedNode
from tests.roles.local import on_node

Smi = Callable[..., str]


@pytest.fixture
def node(tmp_path: Path) -> SimulatedNode:
    """A state file with two H200, and the real nvidia-smi that reads it."""
    return SimulatedNode(tmp_path)


@pytest.fixture
def smi(node: SimulatedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """Changes the state of the GPUs; the real program is the nvidia-smi of this test."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    # What reads a node hands its environment on to no program.
    environment = " ".join(f"{name}={value}" for name, value in node.environment.items())
    real = nvml_smi.program(node.branch, CACHE)
    program.write_text(f'#!/bin/sh\nexport {environment}\nexec {real} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setattr(gpu_settings, "MIG_MADE", str(tmp_path / "run/mig-made"))
    (tmp_path / "version").touch()
    on_node(monkeypatch, DRIVER, str(tmp_path / "version"))

    def call(verb: str, *words: str) -> str:
        command = [sys.executable, state.__file__, verb, str(node.state), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return call
