"""Makes the programs faster: Lockstep's connector for pyinfra, and rarer garbage collection."""

import atexit
import gc
import os
import sys
from functools import cache
from importlib.metadata import entry_points

NEW_OBJECTS = 20_000
"""Number of new objects that triggers a collection; Python's default is 700 (2,000 since 3.13)."""


def wanted() -> bool:
    """Return whether the fast path is on: ``LOCKSTEP_FAST=0`` turns it off."""
    return os.environ.get("LOCKSTEP_FAST") != "0"


def inventory_name(node: str) -> str:
    """Return a node's host name for pyinfra, with Lockstep's connector if it is installed."""
    return f"@lockstep/{node}" if _installed() else node


@cache
def _installed() -> bool:
    if entry_points(group="pyinfra.connectors", name="lockstep"):
        return True
    print(
        "facts are read one by one, because Lockstep's connector for pyinfra is not installed. "
        "Next: make setup",
        file=sys.stderr,
    )
    return False


def collect_seldom() -> None:
    """Collect garbage less often, ignore all existing objects, and collect nothing at exit.

    The programs keep almost all objects that they create, and a collection at exit would take a
    tenth of the time of a check. ``LOCKSTEP_FAST=0`` keeps Python's defaults.
    """
    if wanted():
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, 10, 10)
        atexit.register(gc.freeze)
