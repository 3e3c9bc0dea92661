"""Folders and programs of this checkout."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OURS = Path(sys.prefix)
"""The virtual environment that this runs in."""
INVENTORY = "inventories/lab.py"
WORKERS = "deploys/worker.py"


def program(name: str) -> str:
    """Return the path of a program of our virtual environment."""
    return str(OURS / "bin" / name)
