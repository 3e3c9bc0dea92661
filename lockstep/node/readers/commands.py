"""Runs other programs, each with a time-out."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from typing import Any

from lockstep.node.readers.reading import Unread

COMMAND_TIMEOUT_S = 10.0
PATH = os.pathsep.join(
    [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"]
)


def installed(name: str) -> bool:
    """Say whether there is a command of this name."""
    return shutil.which(name, path=PATH) is not None


class Commands:
    """Runs commands, each with its own time-out, and remembers how each went."""

    def __init__(self, timeout_s: float | None = None) -> None:
        """Start with no command run; each may take this long."""
        self.timeout_s = timeout_s or COMMAND_TIMEOUT_S
        self.ran: list[dict[str, Any]] = []
        self.hung: dict[str, str] = {}

    def run(self, *argv: str, text: str = "", user: str = "", ok: tuple[int, ...] = (0,)) -> str:
        """Return what a command prints; ``Unread`` when it is missing, fails or hangs."""
        status, out, err = self.outcome(*argv, text=text, user=user)
        if status not in ok:
            said = (err.strip() or out.strip() or "no message").splitlines()[0]
            raise Unread(f"{argv[0]}: exit {status}: {said[:200]}")
        return out

    def outcome(self, *argv: str, text: str = "", user: str = "") -> tuple[int, str, str]:
        """Return exit status, standard output and standard error of a command."""
        program = shutil.which(argv[0], path=PATH)
        if program is None:
            raise Unread(f"{argv[0]}: not installed")
        if argv[0] in self.hung:  # it costs its time-out once, whatever else it would be asked
            raise Unread(self.hung[argv[0]])
        extra: dict[str, Any] = {}
        if user:
            account = pwd.getpwnam(user)
            extra = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        begin = time.monotonic()
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
            env={"PATH": PATH, "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
            **extra,
        )
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
            self.hung[argv[0]] = f"{argv[0]}: no answer within {self.timeout_s:g} s"
            raise Unread(self.hung[argv[0]])
        return process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its children; the caller reports that it hung."""
    os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    # A process in uninterruptible sleep (a lost GPU) does not die: it is not waited for long.
    until = time.monotonic() + 0.5
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
