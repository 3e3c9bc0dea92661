"""NVLinks with their errors, and the topology, from nvidia-smi."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from lockstep.node.readers.commands import Commands, failure
from lockstep.node.readers.gpu import said
from lockstep.node.readers.gpu_lost import EXIT_CORRUPTED_INFOROM
from lockstep.node.readers.reading import (
    NOT_SUPPORTED,
    Readings,
    Request,
    Unread,
    not_available,
)

NVLINK_ERRORS = ("replay", "recovery", "crc", "packet", "symbol")
"""Kinds of NVLink errors. Up to Hopper, a link counts the first three; from Blackwell on, it counts
the last three. Nothing counts all five."""
EXIT_NOT_SUPPORTED = 3
"""Exit status of nvidia-smi(1): the requested operation is not available on target device."""
LINK = re.compile(r"^\s*Link (\d+): (.+?)\s*$", re.MULTILINE)
COUNTERS = (
    # 418 and 450: "Link 0: 0 replay errors", "Link 0: 0 flit CRC errors"
    re.compile(r"(?P<count>\d+) (?P<kind>replay|recovery|flit CRC|data CRC) errors"),
    # 535 to 555: "Link 0: CRC Errors: 0"; other branches: "Link 0: CRC Flit Errors: 0"
    re.compile(r"(?P<kind>Replay|Recovery|CRC(?: \w+)?) Errors: (?P<count>\d+)"),
    # Blackwell, recorded with 595.91.07. "Total link recovery events" is the sum of these events.
    re.compile(r"Link (?P<kind>recovery) (?:successful|failed) events: (?P<count>\d+)"),
    re.compile(
        r"(?P<packet>Malformed packet Errors|Buffer overrun Errors|Rx Errors|Rx remote Errors"
        r"|Rx General Errors|Local link integrity Errors|Tx discards): (?P<count>\d+)"
    ),
    # Errors that the forward error correction (FEC) has left over. The FEC's own counters are not
    # read: they count corrected errors, which healthy links have all the time.
    re.compile(r"(?P<symbol>Effective|Symbol) Errors: (?P<count>\d+)"),
)


def read_nvlinks(request: Request, commands: Commands) -> Readings:
    """Speed of every NVLink on every GPU; empty for a GPU without active links.

    The branches up to 555 print nothing for a GPU without NVLinks, not even its heading.
    """
    gpus = by_gpu(said(commands.outcome("nvidia-smi", "nvlink", "-s")))
    return {"gpu.nvlink.links": {gpu: dict(LINK.findall(lines)) for gpu, lines in gpus.items()}}


def read_nvlink_errors(request: Request, commands: Commands) -> Readings:
    """NVLink errors of every GPU, summed over its links."""
    status, out, err = commands.outcome("nvidia-smi", "nvlink", "-e")
    if status not in (0, EXIT_NOT_SUPPORTED, EXIT_CORRUPTED_INFOROM):
        raise failure("nvidia-smi", status, out, err)
    found = {gpu: link_errors(lines) for gpu, lines in by_gpu(out).items()}
    # No counters at all: 450 to 470 print nothing or stop with an error, 535 to 555 print N/A for
    # a B200, and all of them print nothing where no GPU has links.
    if not any(found.values()):
        why = not_available("nvidia-smi nvlink -e printed no counters")
        return {f"gpu.nvlink.{kind}": why for kind in NVLINK_ERRORS}
    return {
        f"gpu.nvlink.{kind}": {
            gpu: errors.get(kind, NOT_SUPPORTED) for gpu, errors in found.items()
        }
        for kind in NVLINK_ERRORS
    }


def link_errors(lines: str) -> dict[str, int]:
    """Return the errors of one GPU, summed over its links: kind -> count."""
    errors: Counter[str] = Counter()
    for _, text in LINK.findall(lines):
        match = next(filter(None, (counter.fullmatch(text) for counter in COUNTERS)), None)
        if match:
            errors[_kind(match.groupdict())] += int(match.group("count"))
    return dict(errors)


def _kind(found: dict[str, Any]) -> str:
    if "kind" not in found:
        return "packet" if "packet" in found else "symbol"
    return "crc" if "CRC" in found["kind"] else str(found["kind"]).lower()


def by_gpu(text: str) -> dict[str, str]:
    """Return the lines below each GPU's heading in the output of ``nvidia-smi nvlink``."""
    parts = re.split(r"^GPU (\d+): .*$", text, flags=re.MULTILINE)
    return {f"gpu{parts[at]}": parts[at + 1] for at in range(1, len(parts), 2)}


def read_topology(request: Request, commands: Commands) -> Readings:
    """Connection between each pair of GPUs or network adapters: ``gpu0 mlx5_0`` -> ``PIX``."""
    status, out, err = commands.outcome("nvidia-smi", "topo", "-m")
    out = re.sub(r"\x1b\[[0-9;]*m", "", out)
    if status not in (0, EXIT_CORRUPTED_INFOROM):
        # If it fails, it has already printed the head of the matrix.
        messages = [line for line in out.splitlines() if line.strip() and "\t" not in line]
        raise failure("nvidia-smi", status, "\n".join(messages), err)
    names = dict(re.findall(r"^\s+(NIC\d+): (\S+)\s*$", out, re.MULTILINE))
    lines = [[word.strip() for word in line.split("\t")] for line in out.splitlines()]
    heads = next((line[1:] for line in lines if line[:2] == ["", "GPU0"]), None)
    if heads is None:
        raise Unread("nvidia-smi topo -m printed no matrix")
    pairs: dict[str, str] = {}
    for row in lines:
        start = heads.index(row[0]) + 1 if row[0] in heads else len(heads)
        for column in range(start, len(heads)):
            if re.fullmatch(r"(GPU|NIC)\d+", heads[column]):
                ends = (names.get(end, end.lower()) for end in (row[0], heads[column]))
                pairs[" ".join(ends)] = row[column + 1]
    return {"gpu.topology": pairs}
