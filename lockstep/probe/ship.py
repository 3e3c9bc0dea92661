"""The probe as one shell command: its modules travel as text, nothing is left on the node."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from lockstep.node.readers.asked import END, MARKER
from lockstep.node.readers.collect import in_turn
from lockstep.probe import parts
from lockstep.probe.lines import ProbeFormatError

LARGEST_COMMAND = 100_000
"""Linux refuses a single argument above 128 KiB."""

FOLDER = Path(__file__).resolve().parent.parent / "node/readers"
START = Path(__file__).with_name("shipped.py")
PACKAGE = "lockstep.node.readers"
ALONE = f"{PACKAGE}.collect"
AMONG_MANY = parts.__name__
ASKED = f"{PACKAGE}.asked"
IMPORT = re.compile(r"^from ([\w.]+) import (?:\(([^)]*)\)|(.+)$)", re.MULTILINE)
"""Python's own parser takes thirty times as long (27 ms), for each check."""


@dataclass(frozen=True)
class Request:
    """What to look at on one node: names only, so that no wish can colour what is seen."""

    files: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """Files whose times of change are read, because roles ask for them."""
    groups: tuple[str, ...] = ()
    """Numbers of groups whose names are asked for: roles do."""
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


def asking(only: frozenset[str], request: Mapping[str, Any]) -> str:
    """Return a program for the standard input of ``python3 -``: some readings, of some names.

    It holds only the modules that these readings need, and prints what ``answered`` reads.

    Raises:
        LookupError: there is no such reading.
    """
    readers, program = _asking(only)
    question = json.dumps({"in_turn": readers, "request": dict(request)}, sort_keys=True)
    return f"import sys\nsys.argv[1:] = [{question!r}]\n{program}\n"


@cache
def _asking(only: frozenset[str]) -> tuple[list[list[Any]], str]:
    """Return the readers of some readings by their names, and the program that has them."""
    groups = [rows for rows in in_turn(only) if rows]
    found = {name for rows in groups for _, names in rows for name in names}
    if only - found:
        raise LookupError(f"no reading is called {', '.join(sorted(only - found))}")
    named = [[(of.__module__, of.__name__, names) for of, names in rows] for rows in groups]
    modules = frozenset(module for rows in named for module, _, _ in rows)
    return [[list(row) for row in rows] for rows in named], _packed(ASKED, modules)


def answered(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the readings that a program of ``asking`` printed: name -> value, or unread.

    Raises:
        ProbeFormatError: it printed something else, or not all of it.
    """
    mine = iter(lines)
    try:
        while next(mine).strip() != MARKER:
            pass
        packed, end = next(mine), next(mine).strip()
    except StopIteration:
        raise ProbeFormatError("the readings are not there, or were cut off") from None
    if end != END:
        raise ProbeFormatError(f"in place of the end of the readings: {end[:60]!r}")
    try:
        readings = json.loads(zlib.decompress(base64.b64decode(packed)))
    except (ValueError, zlib.error) as error:
        raise ProbeFormatError(f"the readings cannot be unpacked: {error}") from None
    if not isinstance(readings, dict):
        raise ProbeFormatError("the readings are no map")
    return readings


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


def _program(start: str, modules: frozenset[str]) -> str:
    """Return one program that holds modules with what they import, or all, and runs one of them."""
    texts = sources()
    if modules:
        needed = _needed({start, *modules}, texts)
        texts = {name: text for name, text in texts.items() if name in needed}
    if start == AMONG_MANY:
        texts[start] = Path(parts.__file__).read_text(encoding="utf-8")
    return f"{START.read_text(encoding='utf-8')}\n\nrun({texts!r}, {start!r})\n"


def _needed(modules: Iterable[str], texts: Mapping[str, str]) -> set[str]:
    """Return modules and all that they import."""
    found: set[str] = set()
    ahead = [*modules]
    while ahead:
        name = ahead.pop()
        if name in texts and name not in found:
            found.add(name)
            ahead += [*_imported(texts[name]), name.rpartition(".")[0]]
    return found


@cache
def _packed(start: str, modules: frozenset[str] = frozenset()) -> str:
    packed = base64.b64encode(zlib.compress(_program(start, modules).encode(), 9)).decode()
    return f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{packed}')))"
