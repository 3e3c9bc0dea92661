"""How far the reading of the nodes is, for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from lockstep.report import count

Tell = Callable[[int, int], None]
"""Is called with the number of nodes done so far, and of those that failed among them."""


class Progress:
    """One line that changes on a terminal; a line at the start and one at the end elsewhere."""

    def __init__(self, nodes: int, out: TextIO) -> None:
        """Say that the reading begins."""
        self.nodes, self.out = count(nodes, "node"), out
        self.done = self.failed = 0
        self.began = time.monotonic()
        self._line(f"reading {self.nodes} ...", f"reading: 0 of {self.nodes}")

    def tell(self, done: int, failed: int) -> None:
        """Take in how far it is."""
        self.done, self.failed = done, failed
        self._line("", f"reading: {done} of {self.nodes}{self._failures()}")

    def end(self) -> None:
        """Say what came of it."""
        seconds = time.monotonic() - self.began
        read = self.done - self.failed
        text = f"read {read} of {self.nodes} in {seconds:.0f} s{self._failures()}"
        self._line(text, f"{text}\n")

    def _failures(self) -> str:
        return f", {self.failed} failed" if self.failed else ""

    def _line(self, lasting: str, changing: str) -> None:
        if self.out.isatty():
            self.out.write(f"\r\x1b[K{changing}")
        elif lasting:
            self.out.write(f"{lasting}\n")
        self.out.flush()
