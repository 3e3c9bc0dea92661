"""Prints what a description of this node needs, as a record."""

from __future__ import annotations

import json
import sys

from lockstep.node.describe.readers import OF_A_CHECK, READERS
from lockstep.node.readers.collect import MARKER, in_turn
from lockstep.node.readers.scheduling import run_in_background
from lockstep.node.readers.take import take


def main() -> None:
    """Read the request from standard input; print the record."""
    request = json.loads(sys.stdin.buffer.readline())
    run_in_background(set())
    # The marker separates the record from a greeting that the login shell prints.
    print(MARKER, flush=True)
    readers = [*(rows for rows in in_turn(OF_A_CHECK) if rows), *([row] for row in READERS)]
    print(json.dumps(take(readers, request), separators=(",", ":")), flush=True)
