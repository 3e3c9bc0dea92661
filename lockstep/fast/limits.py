"""How long the commands of an operation may take, on a connection that is alive.

``watch.py`` finds a node that no longer answers. A command that hangs on a node that does answer
needs a limit of its own, or the other nodes would wait for it at the next barrier. timeout(1) on
the node enforces the limit, so that the command does not stay behind. This side waits a little
longer, for the case that even SIGKILL does not end the command (state D, ps(1)).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from gevent.local import local

SHORT_S = 600.0
"""Seconds for all commands of an operation that declares nothing else."""
LONG_S = 3600.0
"""Seconds for all commands of an operation with packages, DKMS or an initramfs; and for each
command that no operation of Lockstep yielded."""
SCALE = 1.0
"""Factor for both; tests use a small one."""
KILL_AFTER_S = 30.0
"""Seconds between SIGTERM and SIGKILL: apt-get, after SIGTERM, waits for the dpkg that it runs."""
LONGER_HERE_S = 15.0
"""Seconds that this side waits after SIGKILL."""
ENDED = (124, 137, -1)
"""Exit statuses of timeout(1) after SIGTERM and SIGKILL. After SIGKILL, sudo ends by a signal, too,
and the ssh session then has no exit status (-1)."""


@dataclass(frozen=True)
class Allowed:
    """The time that the commands of one operation may take together."""

    limit_s: float
    began: float = field(default_factory=time.monotonic)


class Limited:
    """One command that begins now, with what is left of the time of its operation."""

    def __init__(self, allowed: Allowed) -> None:
        """Take the time that is left, at least one second."""
        self._limit_s = allowed.limit_s
        self._began = time.monotonic()
        self._left_s = max(1.0, allowed.began + allowed.limit_s - self._began)

    @property
    def here_s(self) -> float:
        """Seconds after which this side gives the command up."""
        return self._left_s + KILL_AFTER_S + LONGER_HERE_S

    def shell(self, shell: str | None, *, has_terminal: bool) -> str | None:
        """Return what starts the command in place of the shell; None if there is no shell.

        Args:
            shell: the shell that runs the command.
            has_terminal: whether the command may read from a terminal, which only processes in the
                foreground can. Then its children are not ended with it.
        """
        if shell is None:
            return None
        foreground = "--foreground " if has_terminal else ""
        return f"timeout {foreground}-k {KILL_AFTER_S:g} {self._left_s:.3f} {shell}"

    def is_over(self, status: int) -> bool:
        """Return whether timeout(1) ended the command, from the command's exit status."""
        return status in ENDED and time.monotonic() - self._began >= self._left_s

    def text(self, operation: str, *, ended: bool) -> str:
        """Return what an error says of a command that took too long.

        Args:
            operation: the name of the operation.
            ended: whether the command has ended.
        """
        rest = (
            f"its command was ended on the node (SIGTERM, and SIGKILL after {KILL_AFTER_S:g} s)"
            if ended
            else "its command did not end on SIGKILL and may still be running on the node (ps -ef)"
        )
        return (
            f"{operation}: not done within its limit of {self._limit_s:g} s; {rest}. Next: look "
            "for the cause on the node (dmesg, journalctl), then run this again; if the node is "
            "only slow, with --data _timeout=SECONDS"
        )

    def file_text(self, operation: str) -> str:
        """Return what an error says of a file that took too long.

        Args:
            operation: the name of the operation.
        """
        return (
            f"{operation}: a file was not copied within the limit of {self._limit_s:g} s; the "
            "connection was closed. Next: look for the cause on the node (dmesg, df, findmnt), "
            "then run this again; if the node is only slow, with --data _timeout=SECONDS"
        )


class _Doing(local):  # type: ignore[misc]  # gevent's has no types
    allowed: Allowed | None = None


_doing = _Doing()


@contextmanager
def allowing(allowed: Allowed | None) -> Iterator[None]:
    """Limit the commands of this greenlet to what is left of the time of an operation."""
    before, _doing.allowed = _doing.allowed, allowed
    try:
        yield
    finally:
        _doing.allowed = before


def current() -> Allowed:
    """Return the limit for the next command of this greenlet."""
    return _doing.allowed or Allowed(LONG_S * SCALE)


class OverLimit(OSError):
    """Raised if a command was ended because its operation took longer than its limit."""
