"""Whether the fast path is on, and what an inventory calls a node then."""

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
        "facts are read one by one: this checkout is newer than what is installed of it. "
        "Next: make setup",
        file=sys.stderr,
    )
    return False
