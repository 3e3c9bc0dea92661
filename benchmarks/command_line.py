"""What is asked of a benchmark: wrong words are said before anything is measured."""

from __future__ import annotations

import argparse
import math
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def whole(least: int) -> Callable[[str], int]:
    """Return the type of an argument that is a whole number from ``least`` on."""

    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, {least} or more")
        return int(text)

    return number


def milliseconds(text: str) -> float:
    """Return a span of time.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: expected milliseconds, 0 or more")
    return value


def one_of(known: Sequence[str]) -> Callable[[str], str]:
    """Return the type of an argument that is one of a few words."""

    def word(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"{text!r}: expected one of: {', '.join(known)}")
        return text

    return word


def several(kind: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Return the type of an argument that is a list with commas, without repetitions."""
    return lambda text: list(dict.fromkeys(kind(part.strip()) for part in text.split(",")))


def new_file(text: str) -> Path:
    """Return where to write: hours later it is too late to find out that nobody can.

    Raises:
        argparse.ArgumentTypeError: there is no such folder.
    """
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a file in a folder that exists")
    return path


def end_as_interrupted() -> None:
    """Have a terminal that is closed, and kill(1), end this program as Ctrl-C does: tidily."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _interrupt)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
