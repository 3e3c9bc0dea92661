"""The probe as one shell command: its modules travel as text, nothing is left on the node."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from lockstep.probe import parts

LARGEST_COMMAND = 100_000
"""Linux refuses a single argument above 128 KiB."""

FOLDER = Path(__file__).resolve().parent.parent / "node/readers"
START = Path(__file__).with_name("shipped.py")
PACKAGE = "lockstep.node.readers"
ALONE = f"{PACKAGE}.collect"
AMONG_MANY = parts.__name__
IMPORT = re.compile(r"^from ([\w.]+) import (?:\(([^)]*)\)|(.+)$)", re.MULTILINE)
"""Python's own parser takes thirty times as long (27 ms), for each check."""


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
    return _fitting(f'python3 -c "{_packed(ALONE)}" {asked}')


def for_many(requests: Mapping[str, Request]) -> tuple[str, str]:
    """Return a program for ``python3 -c`` and its argument, the same for all these nodes.

    Its second argument is the name of the node that it reads; it prints ``parts``.

    Raises:
        ValueError: together they are too long for one command.
    """
    asked = base64.b64encode(zlib.compress(json.dumps(table(requests)).encode(), 9)).decode()
    program = _packed(AMONG_MANY)
    _fitting(program + asked)
    return program, asked


def table(requests: Mapping[str, Request]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the requests, each once, and the number of each node's: most are asked the same."""
    numbers = {one: number for number, one in enumerate(dict.fromkeys(requests.values()))}
    return [asdict(one) for one in numbers], {name: numbers[one] for name, one in requests.items()}


def _fitting(text: str) -> str:
    if len(text) > LARGEST_COMMAND:
        raise ValueError(f"the probe's command is {len(text)} bytes, at most {LARGEST_COMMAND}")
    return text


def sources() -> dict[str, str]:
    """Return the probe's modules by their full names, each after those that it imports.

    Raises:
        graphlib.CycleError: two modules import each other.
    """
    texts = {
        f"{PACKAGE}.{path.stem}".removesuffix(".__init__"): path.read_text(encoding="utf-8")
        for path in sorted(FOLDER.glob("*.py"))
    }
    before = {name: sorted(_imported(text) & texts.keys()) for name, text in texts.items()}
    return {name: texts[name] for name in TopologicalSorter(before).static_order()}


def _imported(text: str) -> set[str]:
    """Return what a module imports: modules, and names in them.

    As the probe's modules write it: ``from m import a, b``, at the beginning of a line; names in
    parentheses where they are many.
    """
    return {
        name
        for module, several, one in IMPORT.findall(text)
        for name in (module, *(f"{module}.{word}" for word in re.findall(r"\w+", several or one)))
    }


def _program(start: str) -> str:
    """Return one program that holds all modules and runs one of them."""
    texts = sources()
    if start == AMONG_MANY:
        texts[start] = Path(parts.__file__).read_text(encoding="utf-8")
    return f"{START.read_text(encoding='utf-8')}\n\nrun({texts!r}, {start!r})\n"


@cache
def _packed(start: str) -> str:
    packed = base64.b64encode(zlib.compress(_program(start).encode(), 9)).decode()
    return f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
