"""The folder on the control host for a cluster's secrets and history."""

from __future__ import annotations

import os
from pathlib import Path


def folder(cluster: str, named: str | None = None) -> Path:
    """Return the folder that the spec names, or else one in the user's XDG state directory."""
    if named is not None:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(state, "lockstep", cluster)
