"""Faults in the kernel's ring buffer, and GPU and NVSwitch errors in the journal."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from lockstep.node.readers.commands import Commands, failure
from lockstep.node.readers.reading import Readings, Request
from lockstep.node.readers.tree import rooted

FAULTS = {
    # Pattern of the message -> name of the fault.
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
    """Number of messages about each kind of fault in the kernel's ring buffer."""
    found = Counter(
        name
        for message in kernel_messages("/dev/kmsg")
        for pattern, name in FAULTS.items()
        if re.search(pattern, message)
    )
    return {"kernel.log": dict(sorted(found.items()))}


WARNINGS = 4
"""Level of warnings; errors have lower levels (syslog(3))."""
MOST_MESSAGES = 20000


def kernel_messages(path: str) -> Iterator[str]:
    """Yield the warnings and errors in the kernel's ring buffer."""
    # At the end of the buffer, a blocking read would wait for the next message.
    with os.fdopen(os.open(rooted(path), os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
        for _ in range(MOST_MESSAGES):
            try:
                message = file.read(8192)
            except BrokenPipeError:
                continue  # the kernel overwrote it before it was read
            if not message:
                break
            level = message.split(b",", 1)[0]
            if level.isdigit() and int(level) & 7 <= WARNINGS:
                yield message.decode("utf-8", "replace")


XID = re.compile(
    r"(\d+\.\d+) .*\b(S?)Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d+)(?:, *(\w[\w-]*))?"
)
MOST_XIDS = 50
"""Number of events to keep per GPU or NVSwitch; in a flood of errors, the last ones are enough."""


def read_xids(request: Request, commands: Commands) -> Readings:
    """Xid and SXid errors since boot, oldest first, keyed by PCI address."""
    status, out, err = commands.outcome(
        *("journalctl", "-k", "-b", "-o", "short-unix", "--no-pager", "-n", "2000"),
        *("-g", "NVRM: Xid|SXid"),
    )
    # journalctl exits with 1 if nothing matches, and also if it cannot read the journal.
    if status not in (0, 1) or (status == 1 and err.strip()):
        raise failure("journalctl", status, out, err)
    found: dict[str, dict[str, list[Any]]] = {"driver.xid": {}, "driver.sxid": {}}
    events = [match.groups("") for match in map(XID.match, out.splitlines()) if match]
    for _, switch, address, number, word in sorted(events, key=lambda event: float(event[0])):
        event = f"{number} {word}".strip() if switch else int(number)
        by_address = found["driver.sxid" if switch else "driver.xid"]
        by_address.setdefault(address.lower(), []).append(event)
    return {
        name: {address: by_address[address][-MOST_XIDS:] for address in sorted(by_address)}
        for name, by_address in found.items()
    }
