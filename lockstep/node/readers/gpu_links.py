"""NVLinks, and how boards and adapters reach each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import NOT_SUPPORTED, Readings, Request, Unread

NVLINK_ERRORS = ("replay", "recovery", "crc")


def read_nvlinks(request: Request, commands: Commands) -> Readings:
    """Speed of every NVLink of every board; a board that lists none has none up."""
    links: dict[str, dict[str, str]] = {}
    for board, line in by_board(commands.run("nvidia-smi", "nvlink", "-s"), links):
        match = re.match(r"Link (\d+): (.+)", line)
        if match:
            links[board][match.group(1)] = match.group(2)
    return {"gpu.nvlink.links": links}


def read_nvlink_errors(request: Request, commands: Commands) -> Readings:
    """Errors of the NVLinks of every board, all links together."""
    boards: dict[str, dict[str, int]] = {}
    for board, line in by_board(commands.run("nvidia-smi", "nvlink", "-e"), boards):
        match = re.match(r"Link \d+: (\w+)(?: \w+)? Errors: (\d+)$", line)
        kind = match.group(1).lower() if match else ""
        if match and kind in NVLINK_ERRORS:
            boards[board][kind] = boards[board].get(kind, 0) + int(match.group(2))
    return {
        f"gpu.nvlink.{kind}": {b: found.get(kind, NOT_SUPPORTED) for b, found in boards.items()}
        for kind in NVLINK_ERRORS
    }


def by_board(text: str, boards: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield board and line of an answer with a heading for each board, which is added to them."""
    board = ""
    for line in text.splitlines():
        heading = re.match(r"GPU (\d+): ", line)
        if heading:
            board = "gpu" + heading.group(1)
            boards[board] = {}
        elif board:
            yield board, line.strip()


def read_topology(request: Request, commands: Commands) -> Readings:
    """How boards and adapters reach each other: ``gpu0 mlx5_0`` -> ``PIX``, each pair once."""
    out = re.sub(r"\x1b\[[0-9;]*m", "", commands.run("nvidia-smi", "topo", "-m"))
    names = dict(re.findall(r"^\s+(NIC\d+): (\S+)\s*$", out, re.MULTILINE))
    lines = [[word.strip() for word in line.split("\t")] for line in out.splitlines()]
    heads = next((line[1:] for line in lines if line[:2] == ["", "GPU0"]), None)
    if heads is None:
        raise Unread("nvidia-smi: topo -m has no matrix")
    pairs: dict[str, str] = {}
    for row in lines:
        start = heads.index(row[0]) + 1 if row[0] in heads else len(heads)
        for column in range(start, len(heads)):
            if re.fullmatch(r"(GPU|NIC)\d+", heads[column]):
                ends = (names.get(end, end.lower()) for end in (row[0], heads[column]))
                pairs[" ".join(ends)] = row[column + 1]
    return {"gpu.topology": pairs}
