"""A record in short lines, for a launcher that mixes the lines of many nodes in one output.

Shipped to the nodes with the probe: Python 3.9 or newer, standard library only.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from collections.abc import Iterable, Iterator

from lockstep.node.readers.aside import stand_aside
from lockstep.node.readers.collect import collect
from lockstep.node.readers.cpu import cpus

MARKER = "LOCKSTEP-PART"
LONGEST = 900
"""Slurm passes output on in messages of 1024 bytes (its io_hdr.h): a longer line can be torn."""


def main() -> None:
    """Read the requests of all nodes and this one's name from the arguments, print its record."""
    requests, nodes = json.loads(zlib.decompress(base64.b64decode(sys.argv[1])))
    name = sys.argv[2]
    if name not in nodes:
        sys.exit(f"this node calls itself {name!r}: none of those that are read")
    request = requests[nodes[name]]
    stand_aside(cpus(request["housekeeping_cpus"]))
    for line in parted(name, json.dumps(collect(request), separators=(",", ":"))):
        print(line)


def parted(name: str, record: str) -> Iterator[str]:
    """Return the lines of one node's record."""
    text = base64.b64encode(zlib.compress(record.encode())).decode()
    parts = [text[at : at + LONGEST] for at in range(0, len(text), LONGEST)]
    for number, part in enumerate(parts):
        yield f"{MARKER} {name} {number} {len(parts)} {part}"


def joined(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return each node with a complete record, and the record; other lines are ignored."""
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
                continue  # damaged: as if it had not come
            yield name, record
