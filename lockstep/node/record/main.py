"""Prints the record of this node: all readings of a check, and the fingerprint."""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

from lockstep.node.fingerprint.take import fingerprint
from lockstep.node.readers.collect import MARKER, in_turn
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import Readings, Request
from lockstep.node.readers.scheduling import run_in_background
from lockstep.node.readers.take import take

SWITCH_S = 0.05
"""Seconds after which a thread lets others run."""
FINGERPRINT = ("fingerprint", "fingerprint.branches")


def read_fingerprint(request: Request, commands: Commands) -> Readings:
    """The fingerprint, and the parts that were asked for."""
    return dict(zip(FINGERPRINT, fingerprint(request, commands)))  # noqa: B905  # Python 3.9


def record(request: Request) -> dict[str, Any]:
    """Return the record of this node; if parts of its fingerprint are asked for, only these."""
    readers = [] if request.get("asked") else in_turn(frozenset())
    return take([*readers, [(read_fingerprint, FINGERPRINT)]], request)


def main() -> None:
    """Read the request from standard input; print the record."""
    # Each saves 0.02 s: the program ends before garbage matters, and the fingerprint computes while
    # the other readers wait for programs, so that it need not be interrupted every 5 ms.
    gc.disable()
    sys.setswitchinterval(SWITCH_S)
    request = json.loads(sys.stdin.buffer.readline())
    run_in_background(cpus(request.get("housekeeping_cpus", "")))
    # The marker separates the record from a greeting that the login shell prints.
    print(MARKER, flush=True)
    print(json.dumps(record(request), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
