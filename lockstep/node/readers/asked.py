"""Takes only the readings that are asked for; a role's questions come here, on standard input."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from typing import Any

from lockstep.node.readers.take import Row, take

MARKER = "LOCKSTEP-READINGS 1"
END = "LOCKSTEP-READINGS END"
"""Without it the answer was cut off."""


def main() -> None:
    """Take the question from the argument, print the readings in ASCII."""
    question = json.loads(sys.argv[1])
    print(MARKER, flush=True)  # first, so that a greeting of the login cannot hide it
    in_turn = [list(map(row_of, rows)) for rows in question["in_turn"]]
    readings = take(in_turn, question["request"])["readings"]
    packed = zlib.compress(json.dumps(readings, separators=(",", ":")).encode(), 1)
    print(base64.b64encode(packed).decode())
    print(END, flush=True)


def row_of(named: list[Any]) -> Row:
    """Return the reader that a question names, with its readings."""
    module, function, names = named
    return getattr(sys.modules[module], function), tuple(names)
