"""Errors of boards and NVSwitches in the kernel's journal."""

from __future__ import annotations

import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread

MOST_XIDS = 50
"""Of one board: a storm of them says no more than its last ones."""


def read_xids(request: Request, commands: Commands) -> Readings:
    """Errors of this boot, oldest first: Xid numbers by the board's PCI address, SXid by switch."""
    status, out, err = commands.outcome(
        *("journalctl", "-k", "-b", "-o", "short-unix", "--no-pager", "-n", "2000"),
        *("-g", "NVRM: Xid|SXid"),
    )
    # It exits with 1 where nothing matches, and where it cannot look.
    if status not in (0, 1) or (status == 1 and err.strip()):
        said = (err.strip() or out.strip() or "no message").splitlines()[0]
        raise Unread(f"journalctl: exit {status}: {said[:200]}")
    xids: list[tuple[float, str, Any]] = []
    sxids: list[tuple[float, str, Any]] = []
    for line in out.splitlines():
        match = re.match(
            r"(\d+\.\d+) .*\bS?Xid \((?:PCI:)?([0-9A-Fa-f:.]+)[^)]*\): (\d+)(?:, *(\w[\w-]*))?",
            line,
        )
        if match:
            at, address, number = float(match.group(1)), match.group(2).lower(), match.group(3)
            if "SXid" in line:
                sxids.append((at, address, f"{number} {match.group(4) or ''}".strip()))
            else:
                xids.append((at, address, int(number)))
    return {"driver.xid": by_address(xids), "driver.sxid": by_address(sxids)}


def by_address(events: list[tuple[float, str, Any]]) -> dict[str, list[Any]]:
    """Return address -> its last events, oldest first."""
    found: dict[str, list[Any]] = {}
    for _, address, event in sorted(events, key=lambda event: event[0]):
        found.setdefault(address, []).append(event)
    return {address: found[address][-MOST_XIDS:] for address in sorted(found)}
