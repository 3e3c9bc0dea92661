"""Takes only the readings that a role needs."""

from __future__ import annotations

import base64
import json
import sys
import zlib

from lockstep.node.readers.reading import OF_A_ROLE
from lockstep.node.readers.take import Row, take

MARKER = "LOCKSTEP-READINGS 1"
COMMAND_TIMEOUT_S, READER_TIMEOUT_S = 30.0, 50.0
"""Longer timeouts than in a check, because nvidia-smi without persistence mode initializes all GPUs
before it answers."""
END = "LOCKSTEP-READINGS END"
"""Last line of the output; if it is missing, the output was cut off."""


def main() -> None:
    """Read the request from the argument; print the readings, compressed and in base64."""
    question = json.loads(sys.argv[1])
    print(MARKER, flush=True)  # separates the readings from the output of the login shell
    in_turn: list[list[Row]] = [
        [(getattr(sys.modules[module], reader), tuple(names)) for module, reader, names in rows]
        for rows in question["in_turn"]
    ]
    request = {**question["request"], OF_A_ROLE: True}
    readings = take(in_turn, request, COMMAND_TIMEOUT_S, READER_TIMEOUT_S)["readings"]
    packed = zlib.compress(json.dumps(readings, separators=(",", ":")).encode(), 1)
    print(base64.b64encode(packed).decode())
    print(END, flush=True)
