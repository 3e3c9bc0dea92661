"""Faults that the kernel's own log tells of."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import rooted

FAULTS = {
    # What the kernel's log says -> how a rule names it.
    r"blocked for more than \d+ seconds": "task hung",
    r"watchdog: BUG: soft lockup|hard LOCKUP": "CPU locked up",
    r"rcu.*(?:self-detected stall|detected stalls)": "RCU stall",
    r"\[Hardware Error\]: (?:Uncorrected|.*[Ff]atal)": "machine check",
    r"(?:EXT4-fs|XFS) .*(?:error|Corruption)|Remounting filesystem read-only": "file system error",
    r"I/O error, dev (?!sr|fd|loop)|nvme\S*: (?:controller is down|I/O .* timeout)": "disk error",
    r"NETDEV WATCHDOG": "network queue hung",
    r"AER: .*(?:Uncorrect|Fatal|Non-Fatal)": "PCIe error",
}


def read_kernel_log(request: Request, commands: Commands) -> Readings:
    """How often the kernel's own buffer tells of each kind of fault."""
    found: dict[str, int] = {}
    for message in kernel_messages("/dev/kmsg"):
        for pattern, name in FAULTS.items():
            if re.search(pattern, message):
                found[name] = found.get(name, 0) + 1
    return {"kernel.log": dict(sorted(found.items()))}


WARNINGS = 4
"""Kernel messages of this level and below tell of something wrong (syslog(3))."""
MOST_MESSAGES = 20000


def kernel_messages(path: str) -> list[str]:
    """Return the warnings and errors in the kernel's buffer; ``Unread`` if it is closed to us."""
    messages: list[str] = []
    try:
        # Without waiting: at the end of the buffer a read would wait for the next message.
        with open(rooted(path), "rb", buffering=0, opener=without_waiting) as file:
            for _ in range(MOST_MESSAGES):
                message = next_message(file)
                if not message:
                    break
                level = message.split(b",", 1)[0]
                if level.isdigit() and int(level) & 7 <= WARNINGS:
                    messages.append(message.decode("utf-8", "replace"))
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None
    return messages


def next_message(file: Any) -> bytes:
    """Return one message; an empty line for one that was overwritten before it was read."""
    try:
        return bytes(file.read(8192) or b"")
    except BrokenPipeError:
        return b"\n"


def without_waiting(path: str, flags: int) -> int:
    """Open a file so that a read never waits."""
    return os.open(path, flags | os.O_NONBLOCK)
