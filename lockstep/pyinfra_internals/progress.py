"""The progress of pyinfra's phases and operations: nodes done, failed and remaining.

pyinfra itself shows no failures, and nothing at all without a terminal. Here, a terminal has a line
that changes; elsewhere, and with NO_COLOR, a lasting line appears if something takes long.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import Event
from pyinfra import progress
from pyinfra.api.output import echo, is_output_active
from pyinfra.api.state import StateStage

if TYPE_CHECKING:
    from pyinfra.api.host import Host

ORIGINAL = progress.progress_spinner
EVERY_S = 0.2
"""Seconds between changes of the line on a terminal."""
AFTER_S = 10.0
"""Seconds until the first lasting line. The time to the next one doubles each time."""


class Progress:
    """Some items of work: hosts, or pairs of a host and an operation."""

    def __init__(self, items: Iterable[Any]) -> None:
        """Begin to count."""
        self.left = set(items)
        self._hosts = {_host(item) for item in self.left}
        self._all, self._done = len(self.left), 0
        self._nouns = "operations" if any(isinstance(one, tuple) for one in self.left) else "nodes"
        self._began = time.monotonic()

    def complete(self, item: Any) -> None:
        """Count an item as done.

        Raises:
            ValueError: it is not one of the items, or is already done.
        """
        if item not in self.left:
            raise ValueError(f"not an item that is left: {item}")
        self.left.remove(item)
        self._done += 1

    def _failed(self) -> int:
        left = {_host(item) for item in self.left}
        return sum(_has_failed(host) for host in self._hosts if host not in left)

    def text(self) -> str:
        """Return how many are done and have failed, how long it took, and who is left."""
        from lockstep.report import fold  # its import would delay every run

        failed = f", {count} failed" if (count := self._failed()) else ""
        names = fold({_host(item).name for item in self.left})
        waiting = f"; waiting for {names}" if names else ""
        took = time.monotonic() - self._began
        return f"{self._done} of {self._all} {self._nouns} done{failed}, {took:.0f} s{waiting}"

    def show(self, stopped: Event) -> None:
        """Show the progress until the event is set."""
        if os.environ.get("PYINFRA_PROGRESS") == "off" or not self.left:
            return
        if _can_change_lines():
            self._change_a_line(stopped)
        else:
            self._print_lines(stopped)

    def _change_a_line(self, stopped: Event) -> None:
        for mark in cycle("-\\|/"):
            if stopped.wait(EVERY_S):
                return
            line = f"    {mark} {self.text()}"[: get_terminal_size().columns - 1]
            sys.stderr.write(f"{line}\r")
            sys.stderr.flush()
            # Not flushed: it clears the line before the next output (pyinfra's own way).
            sys.stderr.write("\x1b[K")

    def _print_lines(self, stopped: Event) -> None:
        wait_s = AFTER_S
        while not stopped.wait(wait_s):
            echo(f"    {self.text()}", err=True)
            wait_s *= 2


@contextmanager
def shown(items: Iterable[Any], prefix_message: str | None = None) -> Iterator[Callable[..., None]]:
    """Show the progress of some items, in place of pyinfra's ``progress_spinner``.

    Args:
        items: hosts, or pairs of a host and an operation.
        prefix_message: not used, as in the calls that this replaces.
    """
    if not is_output_active():
        yield lambda item: None
        return
    counted, stopped = Progress(items), Event()
    showing = gevent.spawn(counted.show, stopped)
    try:
        yield counted.complete
    finally:
        stopped.set()
        showing.join()


def _host(item: Any) -> Host:
    host: Host = item[0] if isinstance(item, tuple) else item
    return host


def _has_failed(host: Host) -> bool:
    connects = host.state.current_stage is StateStage.Connect
    return host in host.state.failed_hosts or (connects and not host.connected)


def _can_change_lines() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and sys.stderr.isatty() and not plain


@cache
def show() -> None:
    """Make pyinfra show its progress with this module. Later calls have no effect."""
    for name in ("pyinfra.api.connect", "pyinfra.api.operations", "pyinfra_cli.util"):
        module = sys.modules.get(name)
        if getattr(module, "progress_spinner", None) is ORIGINAL:
            setattr(module, "progress_spinner", shown)  # noqa: B010  # mypy expects pyinfra's type
