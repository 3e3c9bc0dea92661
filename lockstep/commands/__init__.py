"""Commands of ``lockstep``: every public module here is a command and has ``add_parser``."""

from __future__ import annotations

import argparse
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Return type of ``ArgumentParser.add_subparsers``; argparse has no public name for it."""
