"""Folder on the control host for a cluster's secrets and history."""

from __future__ import annotations

import os
from pathlib import Path


def folder(cluster: str, named: str | None = None) -> Path:
    """Return the folder from the spec, or else one in the user's state directory (XDG)."""
    if named is not None:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "lockstep" / cluster
