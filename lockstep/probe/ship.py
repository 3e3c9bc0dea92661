"""The probe as one shell command, which contains its modules and leaves no file on the node."""

from __future__ import annotations

import base64
import json
import re
import shlex
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from lockstep.node.readers.collect import OF_NVIDIA_SMI
from lockstep.node.readers.commands import TOO_SLOW as TOO_SLOW
from lockstep.node.readers.selected import BEGIN as BEGIN
from lockstep.node.readers.selected import END as END
from lockstep.node.readers.selected import ENDS_AFTER_S as ENDS_AFTER_S
from lockstep.node.readers.selected import MARKER as MARKER
from lockstep.node.readers.selected import OVER as OVER
from lockstep.node.readers.selected import STARTED as STARTED
from lockstep.node.record.of_roles import for_a_role
from lockstep.probe import parts
from lockstep.probe.lines import ProbeFormatError

LARGEST_COMMAND = 120_000
"""Maximum length of the command, in bytes. Linux rejects a single argument longer than 128 KiB
(execve(2), MAX_ARG_STRLEN); the rest is for the words of sudo and of shells around it."""

LARGEST_PIECE = 115_000
"""Characters of a program in one command. Up to three shells quote the quotes in it once more."""

PYTHON = "python3 -IS"
"""Python without PYTHON* variables and without installed packages; both could change a reading."""

SLOW = frozenset(name for _, names in OF_NVIDIA_SMI for name in names)
"""Readings that take longer than most commands of a deploy."""

NODE = Path(__file__).resolve().parent.parent / "node"
FOLDERS = ("readers", "fingerprint", "record")
DESCRIBE = "describe"
"""Folder with the modules that only ``lockstep describe`` sends."""
MAIN = "lockstep.node.record.main"
COLLECT = "lockstep.node.readers.collect"
KEPT = "lockstep.node.readers.kept"
START = Path(__file__).with_name("loader.py")
PACKAGE = "lockstep.node.readers"
IMPORT = re.compile(r"^from ([\w.]+) import (?:\(([^)]*)\)|(.+)$)", re.MULTILINE)
"""Matches an import. Python's own parser would take thirty times as long (27 ms per check)."""


@dataclass(frozen=True)
class Request:
    """The names of the objects to read on one node. The probe does not know their expected values.

    Roles can also ask for other kinds of objects (``lockstep.question.ABOUT``).
    """

    files: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    """Files whose content is wanted. Then nothing else is read but ``files``."""
    units: tuple[str, ...] = ()
    sysctls: tuple[str, ...] = ()
    credential: str | None = None
    """A munge credential from another node, for this node to decode."""
    kernel_files: tuple[str, ...] = ()
    """Paths below /sys and /proc; each may contain ``*``."""
    interfaces: tuple[str, ...] = ()
    """Interfaces with the program that keeps them, such as ``networkd ib0``."""
    gateways: tuple[str, ...] = ()
    """Families whose default route is wanted: ``ipv4`` or ``ipv6``."""
    firewall: tuple[str, ...] = ()
    """Programs whose rules are wanted: ``nftables`` or ``firewalld``."""
    selinux_modules: tuple[str, ...] = ()
    selinux_booleans: tuple[str, ...] = ()
    selinux_labels: tuple[str, ...] = ()
    """Paths whose label is wanted."""
    manifests: tuple[str, ...] = ()
    """Manifests of objects of Kubernetes, and what else of them to compare."""
    releases: tuple[str, ...] = ()
    """Helm releases: ``namespace/name``."""
    kubeadm: tuple[str, ...] = ()
    """kubeadm's configuration on a node of the control plane."""
    api_server: tuple[str, ...] = ()
    """Address and port of the node's own API server, on a node of the control plane."""
    listeners: tuple[str, ...] = ()
    """Ports, such as ``tcp/22``."""
    containers: tuple[str, ...] = ()
    """Container engines that are to start one container each; only with ``--containers``."""
    check_image: str = ""
    """The image of the containers that a check starts."""
    container_devices: tuple[str, ...] = ()
    """Folders of device files that a check's containers get in addition to the GPUs, as jobs do."""
    spank_plugins: tuple[str, ...] = ()
    """File names of SPANK plugins."""
    srun_options: tuple[str, ...] = ()
    """srun options that plugins add, such as ``--container-image``."""
    signatures: bool = False
    """Whether to read who signed the kernel modules that DKMS has built."""
    fingerprint: str = ""
    """The cluster's name, if the fingerprint is wanted; it is the key of secret values for nodes
    without munge."""
    own: tuple[tuple[str, str], ...] = ()
    """The node's identities in the plan: (kind, value)."""
    alike: tuple[tuple[str, str], ...] = ()
    """What a value is -> the values of all nodes that must be equal: a hostlist, or ranges of
    addresses (``node.fingerprint.peers``)."""
    slow: bool = False
    """Whether to read also what a node reads once a day at most (``node.fingerprint.slow``)."""
    asked: tuple[tuple[str, str], ...] = ()
    """What of the fingerprint to show: (domain, ``#`` and a bucket, or a touched object). Then
    nothing else is read."""
    exempt: tuple[tuple[str, str, str, str], ...] = ()
    """The site's exceptions from the fingerprint (``Exempt``)."""
    housekeeping_cpus: str = ""
    """CPUs for the probe, so that it does not disturb jobs; empty if it may use all CPUs."""
    describe: bool = False
    """Whether to read what a description needs (``node.describe``), and nothing else."""


def command(request: Request) -> str:
    """Return the shell command that reads a node; run it as root.

    Raises:
        ValueError: the request is too long for one command.
    """
    return _fitting(f'{PYTHON} -c "{_packed(COLLECT)}" {_argument(request)}')


def _argument(request: Request) -> str:
    return base64.b64encode(json.dumps(asdict(request)).encode()).decode()


def with_input(request: Request) -> tuple[str, list[str]]:
    """Return the command that reads a node, and its standard input, if it needs any.

    The program with fingerprints is longer than an argument of a command may be. The other one is,
    too, together with a long request.

    Raises:
        ValueError: the request alone is too long for one command.
    """
    if request.fingerprint:
        return READS, [fingerprint_program(), json.dumps(asdict(request))]
    if request.describe:
        return READS, [_describing(), json.dumps(asdict(request))]
    try:
        return command(request), []
    except ValueError:
        return _fitting(f"{READS} {_argument(request)}"), [_packed(COLLECT)]


def fingerprint_program() -> str:
    """Return the program that reads a node with its fingerprint, as one line."""
    return _keeping()


def in_pieces(request: Request, folder: str) -> list[str]:
    """Return the commands that read a node, for a connection without standard input.

    They must run in this order, as root. The output of the last one is the record. If the program
    needs standard input, the first command makes a folder, and all but the last write a part of the
    input to it. The last one removes the folder before the program begins.

    Args:
        request: what to read.
        folder: an absolute path that does not exist, in a folder where only root can write.

    Raises:
        ValueError: the request is too long for one command.
    """
    reads, lines = with_input(request)
    if not lines:
        return [reads]
    text = "".join(f"{line}\n" for line in lines)
    pieces = [text[at : at + LARGEST_PIECE] for at in range(0, len(text), LARGEST_PIECE)]
    file = shlex.quote(f"{folder}/input")
    scripts = [f"printf %s {shlex.quote(piece)} >>{file}" for piece in pieces]
    place = shlex.quote(folder)
    scripts[0] = f"mkdir -m 700 {place} && {scripts[0]}"
    last = f"exec 3<{file}; rm -rf {place}; exec {reads} <&3"
    if len(scripts[-1]) + len(last) > LARGEST_PIECE:
        scripts.append(last)
    else:
        scripts[-1] += f" && {last}"
    return [f"sh -c {shlex.quote(script)}" for script in scripts]


def for_many(
    requests: Mapping[str, Request], own: Mapping[str, tuple[tuple[str, str], ...]]
) -> list[str]:
    """Return the standard input of ``READS`` for many nodes, the same for all of them: two lines.

    The program prints the record as ``parts`` does. Its argument is the node's name. Standard input
    is not limited; an argument is, and ssh joins all arguments of a command to one.

    Args:
        requests: node name -> its request.
        own: node name -> its identities (``Request.own``).
    """
    asked = json.dumps([*table(requests), own])
    hashed = any(one.fingerprint for one in requests.values())
    program = _packed(parts.__name__, takes_fingerprints=hashed)
    return [program, base64.b64encode(zlib.compress(asked.encode(), 9)).decode()]


def table(requests: Mapping[str, Request]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the distinct requests, and for each node the index of its request.

    Most nodes get the same request.
    """
    numbers = {one: number for number, one in enumerate(dict.fromkeys(requests.values()))}
    return [asdict(one) for one in numbers], {name: numbers[one] for name, one in requests.items()}


READS = f"{PYTHON} -c 'import sys;exec(sys.stdin.buffer.readline())'"
"""Command of a process that runs the first line of its standard input: ``reading_program`` or a
program that prints records. Requests follow, and none appears in a process list or log."""


def modules_for(only: frozenset[str]) -> frozenset[str]:
    """Return the modules with the readers for these readings.

    Raises:
        LookupError: a reading is unknown.
    """
    return frozenset(module for rows in _readers(only) for module, _, _ in rows)


@cache
def _readers(only: frozenset[str]) -> list[list[tuple[str, str, tuple[str, ...]]]]:
    """Return module, name and readings of the readers for these readings; see ``take``."""
    groups = [rows for rows in for_a_role(only) if rows] if only else []
    unknown = only - {name for rows in groups for _, names in rows for name in names}
    if unknown:
        raise LookupError(f"unknown readings: {', '.join(sorted(unknown))}")
    return [[(of.__module__, of.__name__, names) for of, names in rows] for rows in groups]


def reading_program(modules: frozenset[str]) -> str:
    """Return a program, as one line, that answers requests with the readers of these modules."""
    return _packed(f"{PACKAGE}.selected", modules | {f"{PACKAGE}.selected"})


def asking(only: frozenset[str], request: Mapping[str, Any], *, waits: bool = False) -> str:
    """Return a request for readings, as one line.

    Args:
        only: the names of the readings.
        request: the names of the objects to read (files, units), as in ``Request``.
        waits: whether the process waits for SIGUSR1 or the line ``BEGIN`` before it takes
            the readings.

    Raises:
        LookupError: a reading is unknown.
    """
    asked = {"in_turn": _readers(only), "request": dict(request), "waits": waits}
    return json.dumps(asked, sort_keys=True)


def answered(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the readings that the answer to a request contains: name -> value, or unread.

    Raises:
        ProbeFormatError: the output is incomplete, or not in the expected format.
    """
    stripped = [line.strip() for line in lines]
    start = stripped.index(MARKER) if MARKER in stripped else len(stripped)
    answer = stripped[start + 1 : start + 3]
    if len(answer) != 2:
        raise ProbeFormatError("the output contains no readings, or was cut off")
    packed, end = answer
    if end != END:
        raise ProbeFormatError(f"the readings do not end with {END!r}, but with {end[:60]!r}")
    try:
        readings = json.loads(zlib.decompress(base64.b64decode(packed)))
    except (ValueError, zlib.error) as error:
        raise ProbeFormatError(f"the readings cannot be unpacked: {error}") from None
    if not isinstance(readings, dict):
        raise ProbeFormatError("the readings are not a JSON object")
    return readings


def _fitting(text: str) -> str:
    if len(text) > LARGEST_COMMAND:
        raise ValueError(
            f"the probe's command is too long: {len(text)} bytes, limit {LARGEST_COMMAND}"
        )
    return text


def sources(folders: Iterable[str] = FOLDERS) -> dict[str, str]:
    """Return the sources of the probe's modules by full name, imported modules first.

    Args:
        folders: folders of ``lockstep/node``; by default those that a check sends.

    Raises:
        graphlib.CycleError: two modules import each other.
    """
    texts = {
        f"lockstep.node.{folder}.{path.stem}".removesuffix(".__init__"): path.read_text(
            encoding="utf-8"
        )
        for folder in folders
        for path in sorted((NODE / folder).glob("*.py"))
    }
    before = {name: sorted(_imported(text) & texts.keys()) for name, text in texts.items()}
    return {name: texts[name] for name in TopologicalSorter(before).static_order()}


def _imported(text: str) -> set[str]:
    """Return the full names of the modules and objects that a module imports.

    The probe's modules write ``from m import a, b`` at the beginning of a line, with parentheses
    around long lists.
    """
    return {
        name
        for module, several, one in IMPORT.findall(text)
        for name in (module, *(f"{module}.{word}" for word in re.findall(r"\w+", several or one)))
    }


@cache
def _keeping() -> str:
    """Return the program that also takes fingerprints, as one line.

    A node that Lockstep deploys keeps the compiled modules (``loader.run_kept``).
    """
    texts = sources()
    first, packed = json.dumps(_with_imports(texts, {KEPT})), _squeezed(json.dumps(texts))
    start = f"{START.read_text(encoding='utf-8')}\n\nFIRST = json.loads({first!r})\n"
    return f"{one_line(start)};run_kept(FIRST,'{packed}','{MAIN}',{late(texts, MAIN)!r})"


@cache
def _describing() -> str:
    """Return the program that reads what a description needs, as one line."""
    texts = sources((*FOLDERS, DESCRIBE))
    main = f"lockstep.node.{DESCRIBE}.main"
    start = START.read_text(encoding="utf-8")
    return one_line(f"{start}\n\nrun({_with_imports(texts, {main})!r}, {main!r})\n")


def late(texts: dict[str, str], start: str) -> list[str]:
    """Return the modules of a program that no other one imports at its beginning.

    Functions import them, and few nodes need them.
    """
    return sorted(texts.keys() - _with_imports(texts, {MAIN, start}))


def _with_imports(texts: dict[str, str], modules: Iterable[str]) -> dict[str, str]:
    """Return modules and those that they import."""
    needed = set(modules)
    for name in reversed(texts):  # each module precedes its imports
        if name in needed:
            needed |= {*_imported(texts[name]), name.rpartition(".")[0]}
    return {name: text for name, text in texts.items() if name in needed}


@cache
def _packed(
    start: str, modules: frozenset[str] = frozenset(), *, takes_fingerprints: bool = False
) -> str:
    """Return a program that contains modules of the probe and runs one of them.

    Args:
        start: the module that the program runs.
        modules: the modules to include, with their imports; empty: all that take readings.
        takes_fingerprints: whether to include also the modules that take fingerprints.
    """
    texts = sources()
    if not (takes_fingerprints or modules):
        texts = {name: text for name, text in texts.items() if name.startswith(PACKAGE)}
    if modules:
        texts = _with_imports(texts, {start, *modules})
    if start == parts.__name__:
        texts[start] = Path(parts.__file__).read_text(encoding="utf-8")
    unused = late(texts, start) if takes_fingerprints else []
    program = f"{START.read_text(encoding='utf-8')}\n\nrun({texts!r}, {start!r}, {unused!r})\n"
    return one_line(program)


def one_line(program: str) -> str:
    """Return a program as one line of Python, with its source compressed."""
    return f"import base64,zlib;exec(zlib.decompress(base64.b64decode('{_squeezed(program)}')))"


def _squeezed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
