"""Runs readers side by side, and makes a record of what they read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread

FORMAT = 1
READER_TIMEOUT_S = 25.0
"""After this long a reader that waits for a file system is given up; its readings are unread."""

Row = tuple[Callable[[Request, Commands], Readings], tuple[str, ...]]
"""A reader, and the readings that it takes."""

NAMES = (
    *("files", "changed", "groups", "units", "sysctls", "kernel_files", "listeners"),
    *("containers", "check_image", "container_devices"),
    *("spank_plugins", "srun_options"),
)
"""What a request may name; what it does not is not looked at."""


def take(
    in_turn: list[list[Row]],
    request: Request,
    command_timeout_s: float | None = None,
    reader_timeout_s: float | None = None,
) -> dict[str, Any]:
    """Return a record of this node.

    Args:
        in_turn: readers; those of one list run one after the other.
        request: what to look at, by name.
        command_timeout_s: for each command; None: the usual.
        reader_timeout_s: for each reader, with all of its commands; None: the usual.
    """
    limit_s = reader_timeout_s or READER_TIMEOUT_S
    taken_at, begin = time.time(), time.monotonic()
    request = {**{name: [] for name in NAMES}, **request}
    commands = Commands(command_timeout_s)
    readings: Readings = {}

    def read(reader: Callable[[Request, Commands], Readings], names: tuple[str, ...]) -> None:
        try:
            found = reader(request, commands)
        except Unread as reason:
            found = dict.fromkeys(names, reason)
        except (OSError, ValueError, LookupError) as error:
            found = dict.fromkeys(names, Unread(f"{type(error).__name__}: {error}"))
        for name, value in found.items():
            unread = isinstance(value, Unread)
            readings[name] = {"unread": str(value)} if unread else {"value": value}

    def read_in_turn(rows: list[Row]) -> None:
        for row in rows:
            read(*row)

    # Daemon threads: one that is stuck in the kernel must not keep the program from ending.
    threads = [threading.Thread(target=read_in_turn, args=(t,), daemon=True) for t in in_turn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begin + limit_s - time.monotonic()))
    done = dict(readings)
    for rows in in_turn:
        for _, names in rows:
            for name in names:
                done.setdefault(name, {"unread": f"no answer within {limit_s:g} s"})
    return {
        "format": FORMAT,
        "taken_at": round(taken_at, 3),
        "duration_s": round(time.monotonic() - begin, 3),
        "readings": dict(sorted(done.items())),
        "commands": sorted(commands.ran, key=lambda ran: list(ran["argv"])),
    }
