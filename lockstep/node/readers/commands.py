"""Runs other programs, each with a timeout."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from typing import Any

from lockstep.node.readers.reading import Unread

COMMAND_TIMEOUT_S = 10.0
TOO_SLOW = ("did not finish within", "no answer within")
"""One is part of the reason why a reading was not taken if a command or a reader took too long."""
PATH = os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
)


def installed(name: str) -> bool:
    """Return whether a command is installed."""
    import shutil  # few readings need it, and its import takes 3 ms

    return shutil.which(name, path=PATH) is not None


def failure(program: str, status: int, out: str, err: str) -> Unread:
    """Return the reason why a command failed: its exit status and its first line of output."""
    said = (err.strip() or out.strip() or "no message").splitlines()[0]
    return Unread(f"{program}: exit {status}: {said[:200]}")


class Commands:
    """Runs commands, each with a timeout, and records their status and duration."""

    def __init__(self, timeout_s: float | None = None) -> None:
        """Set the timeout of each command, in seconds; None: the default."""
        self.timeout_s = timeout_s or COMMAND_TIMEOUT_S
        self.ran: list[dict[str, Any]] = []
        self.hung: dict[str, str] = {}

    def run(self, *argv: str, text: str = "", user: str = "") -> str:
        """Return a command's output; raise ``Unread`` if it is not installed, fails or hangs."""
        status, out, err = self.outcome(*argv, text=text, user=user)
        if status != 0:
            raise failure(argv[0], status, out, err)
        return out

    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        """Run a command; return its exit status, standard output and standard error."""
        if argv[0] in self.hung:  # a program that hangs costs only one timeout
            raise Unread(self.hung[argv[0]])
        extra: dict[str, Any] = {}
        if user:
            account = pwd.getpwnam(user)
            extra = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        begin = time.monotonic()
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                cwd="/",
                env={"PATH": PATH, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
                **extra,
            )
        except OSError as error:  # the file may also lack its interpreter or the permission to run
            why = f"cannot run: {error.strerror}" if installed(argv[0]) else "not installed"
            raise Unread(f"{argv[0]}: {why}") from None
        timed_out = False
        out = err = b""
        try:
            out, err = process.communicate(text.encode(), timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            end(process)
        self.ran.append(
            {
                "argv": list(argv),
                "status": process.returncode,
                "duration_s": round(time.monotonic() - begin, 3),
                "timed_out": timed_out,
            }
        )
        if timed_out:
            self.hung[argv[0]] = f"{argv[0]}: {TOO_SLOW[0]} {self.timeout_s:g} s"
            raise Unread(self.hung[argv[0]])
        return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its children."""
    os.killpg(process.pid, signal.SIGKILL)
    for stream in filter(None, (process.stdin, process.stdout, process.stderr)):
        stream.close()
    # A process in uninterruptible sleep (a lost GPU) does not die, so the wait is short.
    until = time.monotonic() + 0.5
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
