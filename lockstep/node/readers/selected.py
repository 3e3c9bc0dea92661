"""Takes only the readings that a role needs."""

from __future__ import annotations

import base64
import json
import signal
import sys
import zlib

from lockstep.node.readers.reading import OF_A_ROLE
from lockstep.node.readers.take import Row, take

MARKER = "LOCKSTEP-READINGS 1"
COMMAND_TIMEOUT_S, READER_TIMEOUT_S = 30.0, 50.0
"""Longer timeouts than in a check: without persistence mode, nvidia-smi initializes all GPUs before
it answers."""
ENDS_AFTER_S = 60
"""Seconds that the process may run after the go-ahead on standard input; then an alarm ends it."""
END = "LOCKSTEP-READINGS END"
"""Last line of the output; if it is missing, the output was cut off."""


def main() -> None:
    """Read the request from the argument; print the readings, compressed and in base64.

    If the request sets ``waits``, first wait for a line on standard input; if the input ends
    without one, exit with status 1.
    """
    question = json.loads(sys.argv[1])
    if question["waits"]:
        if not sys.stdin.readline():
            sys.exit(1)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a parent may have ignored it
        signal.alarm(ENDS_AFTER_S)
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
