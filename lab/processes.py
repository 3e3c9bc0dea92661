"""Processes the lab started, recognised again later without trusting a bare process number."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lab.commands import tool_environment
from lab.errors import LabError

GONE_WITHIN_S = 20.0
# The program starts only after its record was written: should the lab be killed in between, the
# shell reads the end of its input and ends.
WAIT_FOR_RECORD = 'read -r go && exec "$@" < /dev/null'


class ProcessRecord(BaseModel):
    """One process: its number means it only together with its start time and the host's boot."""

    model_config = ConfigDict(extra="forbid")

    pid: int
    started: int
    """Clock ticks after the host's boot: field 22 of /proc/PID/stat."""
    boot_id: str


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state letter (field 3) on; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the name, may hold spaces and parentheses: count from the last one.
    return text.rpartition(")")[2].split()


def boot_id() -> str:
    """The host's: another one after each boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def remember(pid: int) -> ProcessRecord:
    """Record a process that runs now.

    Raises:
        LabError: it does not run.
    """
    fields = _stat_fields(pid)
    if fields is None:
        raise LabError(f"process {pid}, just started by the lab, has already ended")
    return ProcessRecord(pid=pid, started=int(fields[19]), boot_id=boot_id())


def start_recorded(
    argv: Sequence[str],
    record: Callable[[ProcessRecord], None],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program that outlives this one, in a session of its own, and never unrecorded.

    Args:
        argv: program and arguments.
        record: writes the record to disk; called before the program runs.
        log: file that gets its output, appended.
        environment: additions to the environment.
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
        raise AssertionError("Popen was asked for a pipe")
    with gate:
        record(remember(process.pid))
        gate.write(b"go\n")
    return process


def alive(record: ProcessRecord | None) -> bool:
    """Whether exactly that process still runs (a zombie does not)."""
    if record is None or record.boot_id != boot_id():
        return False
    fields = _stat_fields(record.pid)
    return fields is not None and fields[0] not in "ZX" and int(fields[19]) == record.started


def children(pid: int) -> list[int]:
    """Process numbers of the direct children, of all its threads."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found.extend(int(word) for word in task.read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended while it was read
    return found


def kill(record: ProcessRecord, *, group: bool = False) -> None:
    """SIGKILL that process (or the group it leads) if it still is the recorded one, and wait.

    Raises:
        LabError: it is still there after GONE_WITHIN_S seconds.
    """
    if not alive(record):
        return
    try:
        if group:
            os.killpg(record.pid, signal.SIGKILL)
        else:
            os.kill(record.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended between the check and the signal
    deadline = time.monotonic() + GONE_WITHIN_S
    while alive(record):
        if time.monotonic() > deadline:
            raise LabError(
                f"process {record.pid} is still there {GONE_WITHIN_S:.0f} s after SIGKILL"
            )
        time.sleep(0.02)
