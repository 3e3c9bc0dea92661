"""Starts the host's services for all labs, and waits until they answer."""

import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.errors import LabError
from lab.processes import ProcessRecord, start_recorded

ANSWERS_WITHIN_S = 20.0


def answers(address: str, port: int) -> bool:
    """Return whether a process listens on a TCP port of an IPv6 address."""
    try:
        with socket.create_connection((address, port), timeout=2):
            return True
    except OSError:  # refused or unreachable: no process listens there
        return False


def start_listening(
    what: str,
    address: str,
    port: int,
    argv: Sequence[str],
    record: Callable[[ProcessRecord], None],
    log: Path,
) -> None:
    """Start a service and wait until it answers.

    Args:
        what: the service in messages.
        address: the IPv6 address on which it listens.
        port: its TCP port.
        argv: program and arguments.
        record: function that writes the record of its process to disk.
        log: file to which its output is appended.

    Raises:
        LabError: it does not answer in time, or has ended.
    """
    process = start_recorded(argv, record, log=log)
    deadline = time.monotonic() + ANSWERS_WITHIN_S
    while not answers(address, port):
        if process.poll() is not None or time.monotonic() > deadline:
            tail = "\n    ".join(log.read_text(errors="replace").splitlines()[-5:])
            raise LabError(
                f"the {what} does not answer on [{address}]:{port}; {log} ends:\n    {tail}"
            )
        time.sleep(0.05)
