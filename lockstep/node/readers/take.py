"""Runs readers in parallel, and combines their readings into a record."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from lockstep.node.readers.commands import TOO_SLOW, Commands
from lockstep.node.readers.reading import FAILURES, Readings, Request, Unread, reason

FORMAT = 1
READER_TIMEOUT_S = 25.0
"""Time limit for all readers together. A reader that is not done by then, for example because a
file system hangs, is abandoned, and its readings are unread."""

Row = tuple[Callable[[Request, Commands], Readings], tuple[str, ...]]
"""A reader and the names of its readings."""

NAMES = (
    *("files", "changed", "naming", "shipped", "groups", "units", "sysctls", "kernel_files"),
    *(
        "firewall",
        "interfaces",
        "gateways",
        "selinux_modules",
        "selinux_booleans",
        "selinux_labels",
    ),
    *("manifests", "releases", "kubeadm", "api_server"),
    *("listeners", "containers", "check_image", "container_devices", "images"),
    *("spank_plugins", "plugin_options", "srun_options", "slurm_nodes", "texts"),
    *("own", "alike", "asked", "exempt", "slow", "signatures"),
)
"""Keys of a request. If a key is missing, there is nothing to read for it."""


def take(
    in_turn: list[list[Row]],
    request: Request,
    command_timeout_s: float | None = None,
    reader_timeout_s: float | None = None,
) -> dict[str, Any]:
    """Return a record of this node.

    Args:
        in_turn: lists of readers. The lists run in parallel; within a list, readers run in turn.
        request: key of ``NAMES`` -> names of the objects to read.
        command_timeout_s: the timeout of each command; None: the default.
        reader_timeout_s: the time limit for all readers together; None: the default.
    """
    limit_s = reader_timeout_s or READER_TIMEOUT_S
    taken_at, begin = time.time(), time.monotonic()
    request = {**{name: [] for name in NAMES}, **request}
    commands = Commands(command_timeout_s)
    readings: Readings = {}

    def read_in_turn(rows: list[Row]) -> None:
        for reader, names in rows:
            try:
                found = reader(request, commands)
            except FAILURES as failure:
                found = dict.fromkeys(names, Unread(reason(failure)))
            for name, value in found.items():
                unread = isinstance(value, Unread)
                readings[name] = {"unread": str(value)} if unread else {"value": value}

    # Daemon threads: a thread that is stuck in the kernel does not keep the program from exiting.
    threads = [threading.Thread(target=read_in_turn, args=(t,), daemon=True) for t in in_turn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begin + limit_s - time.monotonic()))
    late = {"unread": f"{TOO_SLOW[1]} {limit_s:g} s"}
    every = [name for rows in in_turn for _, names in rows for name in names]
    done = {**dict.fromkeys(every, late), **readings}
    return {
        "format": FORMAT,
        "taken_at": round(taken_at, 3),
        "duration_s": round(time.monotonic() - begin, 3),
        "readings": dict(sorted(done.items())),
        "commands": sorted(commands.ran, key=lambda ran: list(ran["argv"])),
    }
