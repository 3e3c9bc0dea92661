"""The CDI specification, on this machine: the real nvidia-smi over the simulated NVML."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from lockstep.roles.operations.container_runtime import ARCHIVE, cdi_specification
from tests.roles.conftest import Smi
from tests.roles.local import run


@pytest.fixture
def restarts(smi: Smi, tmp_path: Path) -> Path:
    """A log of systemctl's arguments; nvidia-ctk writes no specification."""
    log = tmp_path / "systemctl.log"
    log.touch()
    for name, script in {
        "systemctl": f'echo "$@" >>{log}',
        "nvidia-ctk": "echo GPU requires reset >&2; exit 1",
    }.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return log


def test_a_gpu_to_reset_does_not_end_the_deploy(smi: Smi, restarts: Path) -> None:
    smi("set", "1", "lost=requires_reset")
    assert run(cdi_specification, gpus=2).succeeded
    assert restarts.read_text() == ""


def test_another_failure_of_the_toolkit_is_not_hidden(smi: Smi, restarts: Path) -> None:
    run(cdi_specification, gpus=2)
    assert "restart nvidia-cdi-refresh.service" in restarts.read_text()


def test_a_toolkit_that_works_is_used_beside_a_gpu_to_reset(smi: Smi, restarts: Path) -> None:
    """A row remapping waits for a reset too, and such a GPU answers."""
    smi("set", "1", "remapped_rows.pending=Yes")
    (restarts.parent / "bin/nvidia-ctk").write_text("#!/bin/sh\necho cdiVersion: 0.5.0\n")
    run(cdi_specification, gpus=2)
    assert "restart nvidia-cdi-refresh.service" in restarts.read_text()


def test_the_image_for_tests_has_the_same_id_whenever_it_is_made(tmp_path: Path) -> None:
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"a program")
    busybox.chmod(0o700)
    made = []
    for moment, umask in ((1_000_000_000, "022"), (1_700_000_000, "077")):
        os.utime(busybox, (moment, moment))
        path = f"{tmp_path}:{os.environ['PATH']}"
        script = f"umask {umask}; {ARCHIVE}"
        done = subprocess.run(
            ["sh", "-c", script], env={"PATH": path}, capture_output=True, check=True
        )
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            config, layer = (archive.extractfile(name) for name in ("config.json", "layer.tar"))
            assert config is not None
            assert layer is not None
            made.append(config.read())
            with tarfile.open(fileobj=layer) as inside:
                (member,) = inside.getmembers()
    assert made[0] == made[1]
    assert (member.name, member.mtime, member.mode) == ("bin/busybox", 0, 0o755)
    assert (member.uid, member.gid, member.uname) == (0, 0, "")
