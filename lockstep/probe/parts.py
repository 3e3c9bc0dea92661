"""Splits a record into short lines, because srun and clush interleave the output of many nodes.

This module runs on the nodes as part of the probe, so it must run on Python 3.9 and import only
the standard library.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from lockstep.node.readers.collect import collect
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import Request
from lockstep.node.readers.scheduling import run_in_background

MARKER = "LOCKSTEP-PART"
LONGEST = 900
"""Maximum number of characters in a part. Slurm forwards output in messages of 1024 bytes
(io_hdr.h), which can split a longer line."""


def main() -> None:
    """Print this node's record.

    The argument is the node's name; a line of standard input has the requests of all nodes.
    """
    line = sys.stdin.buffer.readline()
    requests, nodes, own = json.loads(zlib.decompress(base64.b64decode(line)))
    name = sys.argv[1]
    if name not in nodes:
        sys.exit(f"this node is named {name!r}, but there is no request for a node of that name")
    request = {**requests[nodes[name]], "own": own.get(name, ())}
    run_in_background(cpus(request["housekeeping_cpus"]))
    for part in parted(name, json.dumps(_read(request), separators=(",", ":"))):
        print(part)


def _read(request: Request) -> dict[str, Any]:
    if not request["fingerprint"]:
        return collect(request)
    # The program has this module, and all that it imports, only if fingerprints are taken.
    from lockstep.node.record.main import record

    return record(request)


def parted(name: str, record: str) -> Iterator[str]:
    """Yield the lines of one node's record."""
    text = base64.b64encode(zlib.compress(record.encode())).decode()
    parts = [text[at : at + LONGEST] for at in range(0, len(text), LONGEST)]
    for number, part in enumerate(parts):
        yield f"{MARKER} {name} {number} {len(parts)} {part}"


def joined(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and record of each node whose record is complete; ignore other lines."""
    found: dict[str, dict[int, str]] = {}
    for line in lines:
        words = line.split()
        if len(words) != 5 or words[0] != MARKER or not all(map(str.isdecimal, words[2:4])):
            continue
        _, name, number, count, part = words
        parts = found.setdefault(name, {})
        parts[int(number)] = part
        if len(parts) == int(count):
            text = "".join(part for _, part in sorted(found.pop(name).items()))
            try:
                record = zlib.decompress(base64.b64decode(text)).decode()
            except (zlib.error, ValueError):
                continue  # damaged, so ignored like a missing record
            yield name, record
