"""The program node-check: ``health``, ``prolog``, ``epilog``, ``metrics``, ``status``, ``verify``.

Slurm gives no argument: its environment says which of them it wants (prolog and epilog guide,
SLURM_SCRIPT_CONTEXT); without it, it is the health check.
Drains   only by what was read twice, some seconds apart, and only by a reading: what is unread,
         and every failure of this program itself, is logged and changes nothing.
Ends     in bounded time: each command has a time-out, the whole run an alarm.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import syslog
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from lockstep.node.check import metrics, slurm
from lockstep.node.check.judge import Judgement, Result, judge
from lockstep.node.readers.aside import FREE, stand_aside
from lockstep.node.readers.collect import collect
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import Unread

CONFIGURATION = "/etc/lockstep/node-check.json"
RUN = "/run/lockstep"
REFUSED = 10
"""Exit status for a job that must not start here; Python's own failures end with 1 or 2."""


@dataclass(frozen=True)
class Mode:
    """How long a kind of run may take, and what it looks at."""

    ends_s: int
    command_s: float
    """For each command."""
    again_s: float
    """After this long a failure is read once more."""
    lock: str
    waits_s: float = 0.0
    """For another run of the same kind; then it is left to that one."""
    at_jobs: bool = False


MODES = {
    # slurmd ends it after 60 s (slurm.conf(5), HealthCheckProgram).
    "health": Mode(55, 8.0, 10.0, "health"),
    "prolog": Mode(5, 1.5, 0.2, "jobs", waits_s=1.0, at_jobs=True),
    "epilog": Mode(5, 1.5, 0.2, "jobs", waits_s=1.0, at_jobs=True),
    "metrics": Mode(40, 10.0, 0.0, "metrics"),
    "status": Mode(40, 10.0, 0.0, ""),
}
CONTEXTS = {"prolog_slurmd": "prolog", "epilog_slurmd": "epilog"}


@dataclass(frozen=True)
class Configuration:
    """What the deploy says of this node."""

    node: str
    housekeeping: str
    """CPUs of the system; "" where none are set apart."""
    textfile: str
    """Where the node exporter finds metrics."""
    request: dict[str, Any]
    """What the probe looks at by name."""
    judgements: tuple[Judgement, ...]


def configuration(text: str) -> Configuration:
    """Return what the file says; TypeError and ValueError where it is something else."""
    content: dict[str, Any] = json.loads(text)
    judgements = [
        Judgement(**{key: _frozen(value) for key, value in one.items()})
        for one in content.pop("judgements")
    ]
    return Configuration(judgements=tuple(judgements), **content)


def main() -> int:
    """Run one mode; return 0, or ``REFUSED`` for a job that must not start here."""
    given = os.environ.get("SLURM_SCRIPT_CONTEXT", "")
    name = sys.argv[1] if len(sys.argv) > 1 else CONTEXTS.get(given, "health")
    if name == "verify":
        configuration(_text(sys.argv[2]))
        return 0
    mode = MODES[name]
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(mode.ends_s)
    syslog.openlog("lockstep-node-check", syslog.LOG_PID, syslog.LOG_DAEMON)
    try:
        return _run(name, mode)
    except Exception as error:  # whatever it is, it is ours and not the node's: it drains nothing
        syslog.syslog(syslog.LOG_ERR, f"{name}: nothing done: {type(error).__name__}: {error}")
        if name == "status":
            print("unread")
        return 0


def _run(name: str, mode: Mode) -> int:
    begin = time.monotonic()
    wanted = configuration(_text(CONFIGURATION))
    _step_aside(wanted.housekeeping, idle=not mode.at_jobs)
    if mode.at_jobs:
        wanted = replace(wanted, judgements=tuple(one for one in wanted.judgements if one.at_jobs))
    with _alone(mode) as alone:
        if not alone:
            syslog.syslog(f"{name}: left to another run that has not ended")
            return 0
        failed, unread = _seen_twice(wanted, mode)
    for one in (*failed, *unread):
        syslog.syslog(syslog.LOG_WARNING, f"{name}: {one.text}")
    if name == "status":
        print(failed[0].text if failed else "unread" if unread else "ok")
    elif name == "metrics":
        took = time.monotonic() - begin
        metrics.write(wanted.textfile, metrics.text(wanted.judgements, failed + unread, took))
    else:
        _tell_slurm(name, mode, wanted.node, failed, unread)
    return REFUSED if failed and name == "prolog" else 0


def _tell_slurm(
    name: str, mode: Mode, node: str, failed: list[Result], unread: list[Result]
) -> None:
    commands = Commands(mode.command_s)
    if failed:
        try:
            done = slurm.drain(node, failed, commands)
        except Unread as reason:  # a prolog still refuses the job
            done = f"not drained: {reason}"
        syslog.syslog(syslog.LOG_ERR, f"{name}: {done}")
    # Only the health check looks at all of it, and what is not known is not repaired.
    elif name == "health" and not unread and slurm.resume(node, commands):
        syslog.syslog(f"{name}: nothing is wrong any more, resumed")


def _seen_twice(wanted: Configuration, mode: Mode) -> tuple[list[Result], list[Result]]:
    """Return what is wrong, in both of two readings, and what was not read in the last one."""
    results = _look(wanted, mode)
    failed = [one for one in results if not one.unread]
    if failed and mode.again_s:
        time.sleep(mode.again_s)
        before = {(one.rule, one.device) for one in failed}
        results = _look(wanted, mode)
        failed = [one for one in results if not one.unread and (one.rule, one.device) in before]
    return failed, [one for one in results if one.unread]


def _look(wanted: Configuration, mode: Mode) -> list[Result]:
    names = {"kernel.cmdline"} if any(one.started_with for one in wanted.judgements) else set()
    for one in wanted.judgements:
        names |= {*one.readings, one.devices, one.reference, one.slots}
    record = collect(
        wanted.request,
        only=frozenset(names - {""}),
        command_timeout_s=mode.command_s,
        # nvidia-smi may have to be asked twice, for its fields and for the boards.
        reader_timeout_s=1.5 * mode.command_s,
    )
    return judge(wanted.judgements, record["readings"])


def _step_aside(housekeeping: str, idle: bool) -> None:
    """Keep off the CPUs of jobs, and run at idle priority where nothing waits for the result."""
    if idle:
        stand_aside(cpus(housekeeping))
    elif housekeeping:
        with suppress(OSError):  # a machine that forbids it: slower for jobs, never wrong
            os.sched_setaffinity(0, cpus(housekeeping) & FREE)


@contextmanager
def _alone(mode: Mode) -> Iterator[bool]:
    """Say whether no other run of this kind is under way; a dead one holds no lock."""
    if not mode.lock:
        yield True
        return
    os.makedirs(RUN, exist_ok=True)
    until = time.monotonic() + mode.waits_s
    with open(f"{RUN}/node-check.{mode.lock}.lock", "w", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    yield False
                    return
                time.sleep(0.1)
            else:
                break
        yield True


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _out_of_time(number: int, frame: object) -> None:
    syslog.syslog(syslog.LOG_ERR, "nothing done: no end in time")
    os._exit(0)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Not sys.exit: a reader that is stuck in the kernel must not keep the program.
    os._exit(status)
