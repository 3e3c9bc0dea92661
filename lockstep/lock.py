"""The lock of a cluster: one run at a time changes its nodes.

On this machine, the kernel keeps the lock (flock(2)) and releases it when the process ends, however
it ends. For other machines, the run writes who it is into a file on the first head. This module
knows the texts of that file; ``roles.operations.run`` writes it.
"""

from __future__ import annotations

import dataclasses
import fcntl
import getpass
import json
import os
import secrets
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lockstep import state
from lockstep.when import span, utc

PARENT = "LOCKSTEP_RUN"
"""Environment variable with the identity of the run that started this process and has the lock."""
PRIVATE = 0o600


class Locked(Exception):
    """Raised if another run has the lock; the message says who, and what to do next."""


@dataclass(frozen=True)
class Holder:
    """A run that has the lock, or wants it."""

    run: str
    user: str
    host: str
    machine: str
    """machine-id(5) of the deploying machine; "" if it has none."""
    boot: str
    """Identity of its boot and of the process's namespace of PIDs (pid_namespaces(7))."""
    pid: int
    started: str
    """Start time of the process in clock ticks since the boot (proc_pid_stat(5), starttime)."""
    since: float
    """Unix time."""
    command: str

    @property
    def text(self) -> str:
        """The holder as one line of ASCII."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    def described(self, now: float) -> str:
        """Return who has the lock, since when and for which command, in several lines.

        Args:
            now: Unix time.
        """
        ago = span(max(0.0, now - self.since))
        return (
            f"  by        {self.user} on {self.host}, process {self.pid}\n"
            f"  since     {utc(self.since)} ({ago} ago)\n"
            f"  command   {self.command}"
        )

    @property
    def has_ended(self) -> bool:
        """Whether its process ran on this machine and has ended; False if that is not known."""
        me = this_run("")
        if not self.machine or (self.machine, self.host) != (me.machine, me.host):
            return False
        if self.boot != me.boot:
            # Another namespace of the same boot cannot be seen from here.
            return self.boot.partition(" ")[0] != me.boot.partition(" ")[0]
        return _started(self.pid) != self.started


def parsed(text: str) -> Holder | None:
    """Return the holder that a line names; None if it is none."""
    with suppress(ValueError, TypeError):
        return Holder(**json.loads(text))
    return None


def this_run(command: str, environment: Mapping[str, str] = os.environ) -> Holder:
    """Return this process as a holder.

    Args:
        command: its command line, without secrets.
        environment: of this process; sudo(8) says there who called it.
    """
    return Holder(
        run=secrets.token_hex(8),
        user=environment.get("SUDO_USER") or getpass.getuser(),
        host=socket.gethostname(),
        machine=_line("/etc/machine-id"),
        boot=f"{_line('/proc/sys/kernel/random/boot_id')} {os.readlink('/proc/self/ns/pid')}",
        pid=os.getpid(),
        started=_started(os.getpid()),
        since=time.time(),
        command=command,
    )


def file(cluster: str, folder: str | None = None) -> Path:
    """Return the path of a cluster's lock on this machine, beside its history."""
    return state.folder(cluster, folder) / "lock"


class Lock:
    """The lock on this machine. It is kept until ``release``, or until the process ends."""

    def __init__(self, path: Path, holder: Holder) -> None:
        """Take the lock, unless the run that started this process has it.

        Raises:
            Locked: another run has it, or the file cannot be used.
        """
        self._file: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE)
        except OSError as error:
            raise Locked(_unusable(path, error)) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            found = os.pread(file, 65536, 0).decode(errors="replace")
            os.close(file)
            other = parsed(found)
            if other is None or other.run != os.environ.get(PARENT):
                raise Locked(_taken(path, other)) from error
            return
        except OSError as error:
            os.close(file)
            raise Locked(_unusable(path, error)) from error
        self._file = file
        os.ftruncate(file, 0)
        os.pwrite(file, holder.text.encode("ascii"), 0)

    def release(self) -> None:
        """Release the lock; a second call has no effect."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def _taken(path: Path, other: Holder | None) -> str:
    if other is None:  # it has only just taken the lock
        return f"another run is changing this cluster ({path}). Next: run this again when it ends"
    return (
        "another run is changing this cluster; nothing was changed\n"
        f"{other.described(time.time())}\n"
        f"  next      wait until it ends, or end it on {other.host}: kill -INT {other.pid}"
    )


def _unusable(path: Path, error: OSError) -> str:
    return (
        f"{path}: the cluster cannot be locked: {error.strerror}; nothing was changed\n"
        "  expected  a folder that this user can write, on a file system with flock(2)\n"
        "  next      repair it, or name another folder in records_dir of the description"
    )


def _started(pid: int) -> str:
    """Return the start time of a process; "" if there is no such process."""
    # The name of the program is in parentheses and may contain anything.
    fields = _line(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def _line(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    return ""
