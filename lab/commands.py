"""Runs other programs and turns their failures into lab errors."""

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence

from lab.errors import LabError

# A user's PATH often lacks sbin, which has ip, sshd and apt-cacher-ng.
TOOL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MESSAGE_LINES = 15


def tool_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for programs: the caller's, with a full PATH and locale C."""
    environment = dict(os.environ)
    environment.update({"PATH": TOOL_PATH, "LC_ALL": "C.UTF-8", **(extra or {})})
    return environment


def attempt(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    timeout: float = 60,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program and return its result for any exit status.

    Args:
        argv: program and arguments.
        stdin: text for standard input; without it the program reads /dev/null.
        timeout: seconds; after this time the program's whole session is killed.
        environment: additions to the environment.

    Raises:
        LabError: the program is missing or timed out.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=tool_environment(environment),
            # In its own session: Ctrl-C reaches only the lab, which then ends the program cleanly.
            start_new_session=True,
        )
    except FileNotFoundError as missing:
        raise LabError(
            f"program {argv[0]!r} is not installed on this host", "lockstep lab setup"
        ) from missing
    try:
        output, errors = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired as late:
        _kill_session(process)
        raise LabError(
            f"`{shlex.join(argv)}` did not finish within {timeout:.0f} s", None
        ) from late
    except BaseException:
        _kill_session(process)
        raise
    return subprocess.CompletedProcess(list(argv), process.returncode, output, errors)


def run(
    argv: Sequence[str],
    *,
    what: str,
    stdin: str | None = None,
    timeout: float = 60,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program that must succeed, and return its standard output.

    Args:
        argv: program and arguments.
        what: the purpose, for the message ("making the switch of lab 'x'").
        stdin: text for standard input.
        timeout: seconds.
        environment: additions to the environment.

    Raises:
        LabError: the program failed; the text has purpose, command, exit status and last output.
    """
    result = attempt(argv, stdin=stdin, timeout=timeout, environment=environment)
    if result.returncode != 0:
        output = (result.stderr.strip() or result.stdout.strip()).splitlines()[-MESSAGE_LINES:]
        raise LabError(
            f"{what}: `{shlex.join(argv)}` failed with exit status {result.returncode}"
            + "".join(f"\n    {line}" for line in output)
        )
    return result.stdout


def _kill_session(process: subprocess.Popen[str]) -> None:
    """Kill and reap a program with its children (it leads its own process group)."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
