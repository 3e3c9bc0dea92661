"""The same deploy with fewer round trips: pyinfra's ssh connector, reading facts ahead.

Nothing here decides what is done to a node. ``LOCKSTEP_FAST=0`` leaves plain pyinfra.
"""

import os


def wanted() -> bool:
    """Say whether the environment leaves the fast path on."""
    return os.environ.get("LOCKSTEP_FAST") != "0"
