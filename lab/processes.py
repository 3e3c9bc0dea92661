"""Records processes of the lab, so that a reused process id is not mistaken for them."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lab.commands import tool_environment
from lab.errors import LabError

PR_SET_PDEATHSIG = 1  # linux/prctl.h
GONE_WITHIN_S = 20.0
# The program starts only after its record is written: if the lab is killed before that, the shell
# reads the end of its input and exits.
WAIT_FOR_RECORD = 'read -r go && exec "$@" < /dev/null'


class ProcessRecord(BaseModel):
    """A process, identified by its process id, its start time and the host's boot id."""

    model_config = ConfigDict(extra="forbid")

    pid: int
    started: int
    """Start time in clock ticks after boot: field 22 of /proc/PID/stat."""
    boot_id: str


def _stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from field 3 (the state) on; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Field 2, the name, may contain spaces and parentheses: start after the last parenthesis.
    return text.rpartition(")")[2].split()


def boot_id() -> str:
    """Return the host's boot id, which changes with each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def remember(pid: int) -> ProcessRecord:
    """Record a running process.

    Raises:
        LabError: the process does not run.
    """
    fields = _stat_fields(pid)
    if fields is None:
        raise LabError(f"process {pid} ended immediately after the lab started it")
    return ProcessRecord(pid=pid, started=int(fields[19]), boot_id=boot_id())


def start_recorded(
    argv: Sequence[str],
    record: Callable[[ProcessRecord], None],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in its own session that outlives this one, and record it before it runs.

    Args:
        argv: program and arguments.
        record: function that writes the record to disk; called before the program runs.
        log: file to which the output is appended.
        environment: additions to the environment.

    The program runs with niceness 0.
    """
    with log.open("ab") as out:
        process = subprocess.Popen(
            ["sh", "-euc", WAIT_FOR_RECORD, argv[0], *argv],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            cwd="/",
            start_new_session=True,
            env=tool_environment(environment),
        )
    gate = process.stdin
    if gate is None:
        raise AssertionError("Popen did not return the requested pipe")
    with gate:
        record(remember(process.pid))
        # A machine's services would inherit the niceness of the command that boots it.
        os.setpriority(os.PRIO_PROCESS, process.pid, 0)
        gate.write(b"go\n")
    return process


def alive(record: ProcessRecord | None) -> bool:
    """Return whether the recorded process still runs (a zombie does not)."""
    if record is None or record.boot_id != boot_id():
        return False
    fields = _stat_fields(record.pid)
    return fields is not None and fields[0] not in "ZX" and int(fields[19]) == record.started


def children(pid: int) -> list[int]:
    """Return the process ids of the direct children of all threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found.extend(int(word) for word in task.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread has just ended
    return found


def kill(record: ProcessRecord, *, group: bool = False) -> None:
    """Kill the recorded process (or the group it leads) if it still runs, and wait.

    Raises:
        LabError: the process still exists after GONE_WITHIN_S seconds.
    """
    if not alive(record):
        return
    try:
        if group:
            os.killpg(record.pid, signal.SIGKILL)
        else:
            os.kill(record.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # the process has just ended
    deadline = time.monotonic() + GONE_WITHIN_S
    while alive(record):
        if time.monotonic() > deadline:
            raise LabError(f"process {record.pid} still exists {GONE_WITHIN_S:.0f} s after SIGKILL")
        time.sleep(0.02)


def run_in_machine(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command of a machine with this terminal, and return its exit status.

    When systemd-shutdown(8) ends a machine, it first stops all its processes. nsenter(1) then stops
    itself, too, but is outside of the machine, where it would wait for a SIGCONT forever, and the
    machine's PID 1 for it. So a stopped nsenter is continued.

    Args:
        argv: what ``console`` of a provider returned.
        environment: the environment of the command.
    """
    pid = os.fork()
    if pid == 0:
        _die_with_parent()
        os.execvpe(argv[0], list(argv), environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command gets it, too
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            ended = os.waitstatus_to_exitcode(status)
            return ended if ended >= 0 else 128 - ended
        if os.WSTOPSIG(status) == signal.SIGSTOP:  # not SIGTSTP, which a terminal sends
            os.kill(pid, signal.SIGCONT)


def _die_with_parent() -> None:
    """Have this process killed when its parent has ended (PR_SET_PDEATHSIG(2const))."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
