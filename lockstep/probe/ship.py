"""The probe as one shell command: the program travels as text, nothing is left on the node."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

LARGEST_COMMAND = 100_000
"""Linux refuses a single argument above 128 KiB."""

PROGRAM = Path(__file__).with_name("collect.py")


@dataclass(frozen=True)
class Request:
    """What to look at on one node: names only, so that no wish can colour what is seen."""

    files: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    sysctls: tuple[str, ...] = ()
    credential: str | None = None
    """A munge credential of another node, to be decoded here."""
    kernel_files: tuple[str, ...] = ()
    """Files below /sys and /proc; each may hold a ``*``."""
    listeners: tuple[str, ...] = ()
    """Ports: ``tcp/22``."""
    containers: tuple[str, ...] = ()
    """Engines that start one container each, only where somebody asked for it."""
    check_image: str = ""
    """The image they start it from."""
    container_devices: tuple[str, ...] = ()
    """Folders of device files that it gets beside the boards, as jobs do."""
    spank_plugins: tuple[str, ...] = ()
    """Files of Slurm's plugins."""
    srun_options: tuple[str, ...] = ()
    """Options of srun that plugins bring: ``--container-image``."""
    housekeeping_cpus: str = ""
    """Where to run, away from the jobs; empty: anywhere."""


def command(request: Request) -> str:
    """Return the shell command that reads a node; run it as root.

    Raises:
        ValueError: the request is too long for one command.
    """
    asked = base64.b64encode(json.dumps(asdict(request)).encode()).decode()
    text = (
        'python3 -c "import base64,zlib;'
        f"exec(zlib.decompress(base64.b64decode('{_packed()}')))\" {asked}"
    )
    if len(text) > LARGEST_COMMAND:
        raise ValueError(f"the probe's command is {len(text)} bytes, at most {LARGEST_COMMAND}")
    return text


@cache
def _packed() -> str:
    return base64.b64encode(zlib.compress(PROGRAM.read_bytes(), 9)).decode()
