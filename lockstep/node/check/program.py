"""The node-check program. Its argument is a mode, or ``verify`` and a configuration file.

A timer runs the health check of a worker of Kubernetes. Slurm passes no argument: the environment
variable SLURM_SCRIPT_CONTEXT then selects prolog or epilog (Slurm's Prolog and Epilog Guide), or
without it, the health check runs.
A node is drained only for a failure that occurs in two successive readings. A value that could
not be read, or an error in this program, is logged and never drains the node.
Each command has a timeout, and an alarm ends a run that takes too long.
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
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lockstep.node.check import kubernetes, metrics, slurm
from lockstep.node.check.judge import Judgement, Result, judge
from lockstep.node.readers.collect import collect
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.cpu import cpus
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.scheduling import run_in_background

CONFIGURATION = "/etc/lockstep/node-check.json"
RUN = "/run/lockstep"
REFUSED = 10
"""Exit status of a prolog that refuses the job; 1 and 2 mean that Python itself failed."""


@dataclass(frozen=True)
class Mode:
    """The time limits and the lock of one kind of run."""

    ends_s: int
    """Seconds after which the alarm ends the run."""
    command_s: float
    """Timeout of each command, in seconds."""
    again_s: float
    """Seconds to wait after a failure before a second reading; 0 if there is no second reading."""
    lock: str
    """Name of the lock, or "" for no lock. Runs with the same lock exclude each other."""
    waits_s: float = 0.0
    """How long a run waits for the lock, in seconds."""
    at_jobs: bool = False
    """Whether this is a run before or after a job."""


MODES = {
    # slurmd ends the health check after 60 s (slurm.conf(5), HealthCheckProgram).
    "health": Mode(55, 8.0, 10.0, "health"),
    "prolog": Mode(5, 1.5, 0.2, "jobs", waits_s=1.0, at_jobs=True),
    "epilog": Mode(5, 1.5, 0.2, "jobs", waits_s=1.0, at_jobs=True),
    "metrics": Mode(40, 10.0, 0.0, "metrics"),
    "status": Mode(40, 10.0, 0.0, ""),
}
CONTEXTS = {"prolog_slurmd": "prolog", "epilog_slurmd": "epilog"}


@dataclass(frozen=True)
class Configuration:
    """The node check's configuration, which the deploy writes."""

    node: str
    housekeeping: str
    """Housekeeping CPUs; "" if jobs may use all CPUs."""
    textfile: str
    """The file that the node exporter reads."""
    request: dict[str, Any]
    """The request to the readers: the names of the objects to read."""
    judgements: tuple[Judgement, ...]
    scheduler: str = "slurm"
    """The scheduler of the node: ``slurm`` or ``kubernetes``."""


def configuration(text: str) -> Configuration:
    """Parse the configuration.

    Raises:
        KeyError, TypeError, ValueError: the text is not a valid configuration.
    """
    content: dict[str, Any] = json.loads(text)
    judgements = tuple(_judgement(fields) for fields in content.pop("judgements"))
    return Configuration(judgements=judgements, **content)


def _judgement(fields: dict[str, Any]) -> Judgement:
    """Return a judgement from its JSON form, in which tuples are lists."""
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Judgement(**{**fields, **lists})


def main() -> int:
    """Run one mode; return exit status 0, or ``REFUSED`` if a prolog refuses the job."""
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
    except Exception as error:  # an error in this program must not drain the node
        syslog.syslog(
            syslog.LOG_ERR, f"{name}: nothing was changed: {type(error).__name__}: {error}"
        )
        if name == "status":
            print("unread")
        return 0


def _run(name: str, mode: Mode) -> int:
    begin = time.monotonic()
    wanted = configuration(_text(CONFIGURATION))
    # A job waits for its prolog and epilog, so they do not run at idle priority.
    run_in_background(cpus(wanted.housekeeping), idle=not mode.at_jobs)
    if mode.at_jobs:
        wanted = replace(wanted, judgements=tuple(one for one in wanted.judgements if one.at_jobs))
    with _alone(mode) as alone:
        if not alone:
            syslog.syslog(f"{name}: nothing was checked: another run is still active")
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
        _tell(name, mode, wanted, failed, unread)
    return REFUSED if failed and name == "prolog" else 0


def _tell(
    name: str, mode: Mode, wanted: Configuration, failed: list[Result], unread: list[Result]
) -> None:
    """Take the node out of its scheduler, or bring it back."""
    commands, node = Commands(mode.command_s), wanted.node
    of_slurm = wanted.scheduler == "slurm"
    if failed:
        try:
            done = (
                slurm.drain(node, failed, commands)
                if of_slurm
                else kubernetes.take_out(node, failed)
            )
        except Unread as reason:  # the prolog still refuses the job
            done = f"not taken out of service: {reason}"
        syslog.syslog(syslog.LOG_ERR, f"{name}: {done}")
    # Only the health check evaluates every rule, and a value that was not read may hide a failure.
    elif name == "health" and not unread:
        resumed = slurm.resume(node, commands) if of_slurm else kubernetes.bring_back(node)
        if resumed:
            syslog.syslog(f"{name}: no failures are left, so the node was resumed")


def _seen_twice(wanted: Configuration, mode: Mode) -> tuple[list[Result], list[Result]]:
    """Return the failures that persist, and the values that could not be read.

    In a mode with ``again_s``, a failure counts only if a second reading shows it too. Only the
    last reading decides which values count as unread.
    """
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
        # A reader may run several commands: nvidia-smi up to three times (gpu_rows).
        reader_timeout_s=1.5 * mode.command_s,
    )
    return judge(wanted.judgements, record["readings"])


@contextmanager
def _alone(mode: Mode) -> Iterator[bool]:
    """Take the lock of this kind of run and yield True; yield False if another run holds it."""
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


def _out_of_time(number: int, frame: object) -> None:
    syslog.syslog(syslog.LOG_ERR, "nothing was changed: the run took too long and was ended")
    os._exit(0)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Not sys.exit: Python's shutdown must not depend on a reader that is stuck in the kernel.
    os._exit(status)
