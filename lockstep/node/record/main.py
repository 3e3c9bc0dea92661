"""Prints the record of this node: all readings of a check, and the fingerprint."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

from lockstep.node.fingerprint.take import fingerprint
from lockstep.node.readers.collect import in_turn
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import NOT_ASKED, Readings, Request
from lockstep.node.readers.scheduling import run_in_background
from lockstep.node.readers.take import take

MARKER = "LOCKSTEP-RECORD 1"
FINGERPRINT = ("fingerprint", "fingerprint.branches")


def read_fingerprint(request: Request, commands: Commands) -> Readings:
    """The fingerprint, if the request has the cluster's name."""
    if not request.get("fingerprint"):
        return dict.fromkeys(FINGERPRINT, NOT_ASKED)
    found, shown = fingerprint(request, commands)
    return {"fingerprint": found, "fingerprint.branches": shown}


def record(request: Request) -> dict[str, Any]:
    """Return the record of this node; of a fingerprint of which parts are asked for, only these."""
    readers = [] if request.get("asked") else in_turn(frozenset())
    return take([*readers, [(read_fingerprint, FINGERPRINT)]], request)


def main() -> None:
    """Read the request from the argument; print the record."""
    request = json.loads(base64.b64decode(sys.argv[1]))
    run_in_background(cpus(request.get("housekeeping_cpus", "")))
    # The marker separates the record from a greeting that the login shell prints.
    print(MARKER, flush=True)
    print(json.dumps(record(request), separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
