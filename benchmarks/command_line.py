"""Argument types of the benchmarks, which reject wrong arguments before the measurement."""

from __future__ import annotations

import argparse
import math
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

from lockstep.inventory import load
from lockstep.plan import NodePlan

T = TypeVar("T")


def whole(least: int) -> Callable[[str], int]:
    """Return an argument type for whole numbers of at least ``least``."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, {least} or more")
        return int(text)

    return number


def milliseconds(text: str) -> float:
    """Parse a time in milliseconds.

    Raises:
        argparse.ArgumentTypeError: the text is not a time.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: expected milliseconds, 0 or more")
    return value


def one_of(known: Sequence[str]) -> Callable[[str], str]:
    """Return an argument type for one of several words."""

    def word(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r}: expected one of: {', '.join(known)}")
        return text

    return word


def several(kind: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Return an argument type for a comma-separated list without duplicates."""
    return lambda text: list(dict.fromkeys(kind(part.strip()) for part in text.split(",")))


def node_of(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> NodePlan:
    """Return the plan of the node that the arguments name; exit if they are wrong.

    Args:
        parser: reports wrong arguments.
        asked: ``inventory``, ``node``, and ``way``: the command that starts a root shell.
    """
    nodes = load(asked.inventory).nodes
    if asked.node not in nodes:
        parser.error(f"{asked.node}: expected a node of {asked.inventory}: {', '.join(nodes)}")
    if shutil.which(asked.way[0]) is None:
        parser.error(f"{asked.way[0]}: not found; expected a command that starts a root shell")
    return nodes[asked.node]


def new_file(text: str) -> Path:
    """Parse the path of an output file; reject it before a measurement that takes hours.

    Raises:
        argparse.ArgumentTypeError: the folder does not exist.
    """
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a file in an existing folder")
    return path


def end_as_interrupted() -> None:
    """Handle SIGHUP and SIGTERM like Ctrl-C, so that the program cleans up."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
