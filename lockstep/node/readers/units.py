"""systemd's units and cron's jobs."""

from __future__ import annotations

import hashlib
import os
import re
import time
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import assignments, exists, found_by, line_of, rooted, text_of


def read_units(request: Request, commands: Commands) -> Readings:
    """State of every unit asked for, from one systemctl."""
    units = request["units"]
    if not units:
        return {"units": {}, "units.started": {}, "limits.memlock": {}, "limits.open_files": {}}
    wanted = (
        "LoadState,ActiveState,SubState,UnitFileState,ActiveEnterTimestampMonotonic,MainPID,"
        "InvocationID,NeedDaemonReload"
    )
    out = commands.run("systemctl", "show", "--no-pager", "--property=" + wanted, "--", *units)
    blocks = [assignments(block) for block in out.strip().split("\n\n")]
    if len(blocks) != len(units):
        raise Unread(f"systemctl: {len(blocks)} answers for {len(units)} units")
    booted = time.time() - time.monotonic()
    found = {}
    started = {}
    processes = {}
    for index, unit in enumerate(units):
        block = blocks[index]
        since = int(block.get("ActiveEnterTimestampMonotonic") or 0)
        found[unit] = {
            "active": block["ActiveState"],
            "sub": block["SubState"],
            "load": block["LoadState"],
            "enabled": block["UnitFileState"],
            "started_at": round(booted + since / 1e6) if since else None,
        }
        started[unit] = {
            "invocation": block.get("InvocationID", ""),
            "at": round(booted + since / 1e6, 3) if since else None,
            "needs_daemon_reload": block.get("NeedDaemonReload") == "yes",
            "stamp": stamp(unit),
        }
        processes[unit] = block.get("MainPID") or "0"

    def limit(unit: str, name: str) -> Any:
        if processes[unit] == "0":
            raise Unread(f"{unit}: no main process")
        path = f"/proc/{processes[unit]}/limits"
        match = re.search(rf"^Max {name}\s+(\S+)\s+(\S+)", text_of(path), re.MULTILINE)
        if not match:
            raise Unread(f"{path}: no {name}")
        return {"soft": match.group(1), "hard": match.group(2)}

    services = [unit for unit in units if unit.endswith(".service")]
    return {
        "units": found,
        "units.started": started,
        "limits.memlock": each(services, lambda unit: limit(unit, "locked memory")),
        "limits.open_files": each(services, lambda unit: limit(unit, "open files")),
    }


LOADED = "/run/lockstep/loaded"
"""Holds a file per unit: its invocation and the files it had read when a role (re)started it."""
MANAGER = "systemd-manager"
"""Name under ``LOADED`` for systemd itself; its invocation is the boot."""


def stamp(unit: str) -> list[str]:
    """Return what a role noted of a unit's start; nothing where none started it."""
    path = f"{LOADED}/{unit}"
    return text_of(path).splitlines() if exists(path) else []


def read_manager(request: Request, commands: Commands) -> Readings:
    """When systemd began, and of which files a role knows that it has read them."""
    out = commands.run("systemctl", "show", "-p", "UserspaceTimestampMonotonic")
    since = int(assignments(out).get("UserspaceTimestampMonotonic") or 0)
    return {
        "systemd.started": {
            "invocation": line_of("/proc/sys/kernel/random/boot_id"),
            "at": round(time.time() - time.monotonic() + since / 1e6, 3),
            "stamp": stamp(MANAGER),
        }
    }


def read_failed_units(request: Request, commands: Commands) -> Readings:
    """Units that failed."""
    out = commands.run(
        *("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"),
    )
    return {"units.failed": sorted(line.split()[0] for line in out.splitlines() if line.split())}


def read_enabled_units(request: Request, commands: Commands) -> Readings:
    """Units that somebody enabled on this node, and the jobs of cron by their hashes."""
    links = found_by("/etc/systemd/system/*.wants/*") + found_by("/etc/systemd/system/*.requires/*")
    tables = [
        path
        for pattern in ("/etc/cron.*/*", "/var/spool/cron/crontabs/*", "/var/spool/cron/*")
        for path in found_by(pattern)
        if os.path.isfile(rooted(path))
    ]

    def table(path: str) -> str:
        # Packages draw minute and hour by lot, so that not all machines start at once.
        common = re.sub(r"^[ \t]*\d+[ \t]+\d+[ \t]", "", text_of(path), flags=re.M)
        return hashlib.sha256(common.encode()).hexdigest()

    return {
        "units.enabled": sorted({os.path.basename(path) for path in links}),
        "cron.jobs": each(tables, table),
    }
