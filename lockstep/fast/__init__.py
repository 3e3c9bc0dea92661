"""The same deploy with fewer round trips: pyinfra's ssh connector, reading facts ahead.

Nothing here decides what is done to a node. ``LOCKSTEP_FAST=0`` leaves pyinfra as it is, one
execution per fact; only the connector stays ours, because it keeps the failure of a node to itself.
"""

import os
import sys
from functools import cache
from importlib.metadata import entry_points


def wanted() -> bool:
    """Say whether the environment leaves the fast path on."""
    return os.environ.get("LOCKSTEP_FAST") != "0"


def inventory_name(node: str) -> str:
    """Return what an inventory calls a node: with our connector, where pyinfra can find it."""
    return f"@lockstep/{node}" if _installed() else node


@cache
def _installed() -> bool:
    if entry_points(group="pyinfra.connectors", name="lockstep"):
        return True
    print(
        "facts are read one by one, and one node's fault can end the run of all: this checkout is "
        "newer than what is installed of it. "
        "Next: make setup",
        file=sys.stderr,
    )
    return False
