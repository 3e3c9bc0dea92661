"""Paths of folders and programs of this checkout."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = Path(sys.prefix)
"""The virtual environment of this program."""
INVENTORY = "inventories/lab.py"
WORKERS = "deploys/worker.py"


def program(name: str) -> str:
    """Return the path of a program in this virtual environment."""
    return str(VENV / "bin" / name)
