"""The node's manifest: what Lockstep wrote here, and what of it is still here."""

from __future__ import annotations

import grp
import json
import pwd
from collections.abc import Callable
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.files import read_file
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, one
from lockstep.node.readers.sysctl import sysctl_path
from lockstep.node.readers.tree import assignments, exists, text_of

MANIFEST = "/var/lib/lockstep/manifest.json"
FORMAT = 1
"""``lockstep.manifest`` writes it."""
OFF = ("disabled", "masked", "masked-runtime", "static", "indirect", "generated", "")


def read_manifest(request: Request, commands: Commands) -> Readings:
    """What Lockstep wrote here; without files, units and sysctls that are asked for by name.

    Those are in the readings of their own. What is left is little, and the same on equal nodes.
    """
    if not exists(MANIFEST):
        return {"manifest": ABSENT}
    held = json.loads(text_of(MANIFEST))
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise Unread(f"{MANIFEST}: no manifest of format {FORMAT}")
    files = _further(held, "files", request["files"])
    units = _further(held, "units", request["units"])
    masked = _further(held, "masked", request["units"])
    sysctl = _further(held, "sysctl", request["sysctls"])
    enabled = _unit_states(sorted({*units, *masked}), commands)
    this_boot = boot() if sysctl else ""

    def of_file(path: str) -> Any:
        return {**_file(path, files[path]), "package": files[path].get("package", "")}

    def of_sysctl(key: str) -> Any:
        return {"role": sysctl[key]["role"], "state": _sysctl(key, sysctl[key], this_boot)}

    return {
        "manifest": {
            "files": {path: one(of_file, path) for path in sorted(files)},
            "units": {
                name: {"role": entry["role"], "state": _running(*enabled[name])}
                for name, entry in units.items()
            },
            "masked": {
                name: {"role": entry["role"], "state": _if_masked(*enabled[name])}
                for name, entry in masked.items()
            },
            "sysctl": {key: one(of_sysctl, key) for key in sorted(sysctl)},
            # The reading "packages" says which are installed.
            "packages": {
                name: {"role": entry["role"], "state": "on hold" if "held" in entry else ""}
                for name, entry in held["packages"].items()
            },
            "users": _accounts(held["users"], pwd.getpwnam),
            "groups": _accounts(held["groups"], grp.getgrnam),
        }
    }


def boot() -> str:
    """Return which boot this is; a container has its host's number, but a start of its own."""
    number = text_of("/proc/sys/kernel/random/boot_id").strip()
    return f"{number} {text_of('/proc/1/stat').rsplit(') ', 1)[1].split()[19]}"


def _further(held: dict[str, Any], section: str, asked: list[str]) -> dict[str, Any]:
    known = set(asked)
    return {name: entry for name, entry in held[section].items() if name not in known}


def _file(path: str, entry: dict[str, str]) -> dict[str, str]:
    now = read_file(path)
    role = entry["role"]
    if "absent" in now:
        return {"role": role, "state": ""}
    if "sha256" not in now:
        return {"role": role, "state": now["other"]}
    ours = now["sha256"] in (entry.get("sha256"), entry.get("before"))
    return {"role": role, "state": "unchanged" if ours else "changed", "sha256": now["sha256"]}


def _unit_states(units: list[str], commands: Commands) -> dict[str, tuple[str, str]]:
    """Return unit -> whether it is enabled and whether it is active, in systemd's words."""
    if not units:
        return {}
    wanted = "UnitFileState,ActiveState"
    out = commands.run("systemctl", "show", "--no-pager", "--property=" + wanted, "--", *units)
    blocks = [assignments(block) for block in out.strip().split("\n\n")]
    if len(blocks) != len(units):
        raise Unread(f"systemctl: {len(blocks)} answers for {len(units)} units")
    return {
        unit: (blocks[index]["UnitFileState"], blocks[index]["ActiveState"])
        for index, unit in enumerate(units)
    }


def _running(enabled: str, active: str) -> str:
    """Return what is left of a unit; nothing of one that is off and does not run."""
    words = [] if enabled in OFF else [enabled]
    return ", ".join(words if active in ("inactive", "failed") else [*words, active])


def _if_masked(enabled: str, active: str) -> str:
    return "masked" if enabled == "masked" else ""


def _sysctl(key: str, entry: dict[str, str], this_boot: str) -> str:
    """Return the value that Lockstep set; nothing where another boot or value came since."""
    path = "/proc/sys/" + sysctl_path(key)
    if entry.get("dropped", this_boot) != this_boot or not exists(path):
        return ""
    now = " ".join(text_of(path).split())
    return now if now == " ".join(entry["value"].split()) else ""


def _accounts(entries: dict[str, Any], find: Callable[[str], object]) -> dict[str, Any]:
    found = {}
    for name, entry in entries.items():
        try:
            find(name)
            state = "there"
        except KeyError:
            state = ""
        found[name] = {"role": entry["role"], "state": state}
    return found
