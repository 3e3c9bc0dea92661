"""Where the deploying side keeps what belongs to a cluster: below the user's state folder."""

from __future__ import annotations

import os
from pathlib import Path


def folder(cluster: str, named: str | None = None) -> Path:
    """Return the folder that the spec names, else the cluster's own below the user's state."""
    if named is not None:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "lockstep" / cluster
