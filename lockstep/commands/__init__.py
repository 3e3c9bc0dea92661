"""Commands of ``lockstep``: one module each, found by existing; each has ``add_parser``."""

from __future__ import annotations

import argparse
from typing import TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What ``ArgumentParser.add_subparsers`` returns; argparse has no public name for it."""
