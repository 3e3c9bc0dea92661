"""systemd's units and cron's jobs."""

from __future__ import annotations

import hashlib
import os
import re
import time
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import assignments, found_by, rooted, text_of


def read_units(request: Request, commands: Commands) -> Readings:
    """State of every unit asked for, from one systemctl."""
    units = request["units"]
    if not units:
        return {"units": {}, "limits.memlock": {}, "limits.open_files": {}}
    wanted = "LoadState,ActiveState,SubState,UnitFileState,ActiveEnterTimestampMonotonic,MainPID"
    out = commands.run("systemctl", "show", "--no-pager", "--property=" + wanted, "--", *units)
    blocks = [assignments(block) for block in out.strip().split("\n\n")]
    if len(blocks) != len(units):
        raise Unread(f"systemctl: {len(blocks)} answers for {len(units)} units")
    booted = time.time() - time.monotonic()
    found = {}
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
        "limits.memlock": each(services, lambda unit: limit(unit, "locked memory")),
        "limits.open_files": each(services, lambda unit: limit(unit, "open files")),
    }


def read_failed_units(request: Request, commands: Commands) -> Readings:
    """Units that failed, whoever started them."""
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
