"""systemd units and cron jobs."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import assignments, found_by, found_in, line_of, rooted, text_of

PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "UnitFileState", "ActiveEnterTimestampMonotonic"),
    *("MainPID", "InvocationID", "NeedDaemonReload"),
)


def read_units(request: Request, commands: Commands) -> Readings:
    """State and limits of every requested unit, from one systemctl call and /proc."""
    units = properties_of(request["units"], PROPERTIES, commands)
    booted = time.time() - time.monotonic()
    # 0: the unit has not been active since boot.
    since = {
        unit: int(block.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
        for unit, block in units.items()
    }

    def limit(unit: str, name: str) -> dict[str, str]:
        process = units[unit].get("MainPID") or "0"
        if process == "0":
            raise Unread(f"{unit} has no main process")
        line = found_in(f"/proc/{process}/limits", rf"^Max {name}\s+(\S+\s+\S+)", f"Max {name}")
        soft, hard = line.split()
        return {"soft": soft, "hard": hard}

    services = [unit for unit in units if unit.endswith(".service")]
    return {
        "units": {
            unit: {
                "active": block["ActiveState"],
                "sub": block["SubState"],
                "load": block["LoadState"],
                "enabled": block["UnitFileState"],
                "started_at": round(booted + since[unit]) if since[unit] else None,
            }
            for unit, block in units.items()
        },
        "units.started": {
            unit: {
                "invocation": block.get("InvocationID", ""),
                "at": round(booted + since[unit], 3) if since[unit] else None,
                "needs_daemon_reload": block.get("NeedDaemonReload") == "yes",
                "stamp": stamp(unit),
            }
            for unit, block in units.items()
        },
        "limits.memlock": each(services, lambda unit: limit(unit, "locked memory")),
        "limits.open_files": each(services, lambda unit: limit(unit, "open files")),
    }


def properties_of(
    units: list[str], properties: Iterable[str], commands: Commands
) -> dict[str, dict[str, str]]:
    """Return the properties of each unit, from one systemctl call."""
    if not units:
        return {}
    wanted = ",".join(properties)
    out = commands.run("systemctl", "show", "--no-pager", "--property=" + wanted, "--", *units)
    blocks = [assignments(block) for block in out.strip().split("\n\n")]
    if len(blocks) != len(units):
        raise Unread(f"systemctl show: expected {len(units)} units, found {len(blocks)}")
    return {unit: blocks[number] for number, unit in enumerate(units)}


LOADED = "/run/lockstep/loaded"
"""Folder with one file for each unit that a role started. The file contains the unit's
invocation ID, and the change time and inode of each file that the unit read."""
MANAGER = "systemd-manager"
"""File in ``LOADED`` for systemd itself, with the boot ID in place of an invocation ID."""


def stamp(unit: str) -> list[str]:
    """Return the record that a role wrote when starting a unit; empty if no role has started it."""
    return text_of(f"{LOADED}/{unit}", "").splitlines()


def read_manager(request: Request, commands: Commands) -> Readings:
    """When systemd started, and a role's record of the files that systemd has read."""
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
    """Units in the failed state."""
    out = commands.run(
        *("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--no-pager"),
    )
    return {"units.failed": sorted(line.split()[0] for line in out.splitlines() if line.split())}


def read_enabled_units(request: Request, commands: Commands) -> Readings:
    """Units that are enabled in /etc/systemd/system, and hashes of the cron tables."""
    links = found_by("/etc/systemd/system/*.wants/*") + found_by("/etc/systemd/system/*.requires/*")
    tables = [
        path
        for pattern in ("/etc/cron.*/*", "/var/spool/cron/crontabs/*", "/var/spool/cron/*")
        for path in found_by(pattern)
        if os.path.isfile(rooted(path))
    ]

    def table(path: str) -> str:
        # Without minute and hour, which packages choose at random to spread the load.
        common = re.sub(r"^[ \t]*\d+[ \t]+\d+[ \t]", "", text_of(path), flags=re.M)
        return hashlib.sha256(common.encode()).hexdigest()

    return {
        "units.enabled": sorted({os.path.basename(path) for path in links}),
        "cron.jobs": each(tables, table),
    }
