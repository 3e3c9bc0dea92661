"""The manifest: everything that Lockstep set up on the node, with its current state."""

from __future__ import annotations

import grp
import json
import pwd
from collections.abc import Callable
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.files import read_file
from lockstep.node.readers.kernel import sysctl_path, sysctl_value
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, each
from lockstep.node.readers.tree import exists, line_of, started, text_of
from lockstep.node.readers.units import properties_of

MANIFEST = "/var/lib/lockstep/manifest.json"
FORMAT = 1
"""Version of the manifest's format; ``lockstep.manifest`` writes the manifest."""
OFF = ("disabled", "masked", "masked-runtime", "static", "indirect", "generated", "")


def read_manifest(request: Request, commands: Commands) -> Readings:
    """The manifest without the files, units and sysctls that the request names.

    The omitted entries have their own readings. The remaining ones are few, and the same on
    all nodes with the same configuration.
    """
    if not exists(MANIFEST):
        return {"manifest": ABSENT}
    held = json.loads(text_of(MANIFEST))
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise Unread(f"{MANIFEST} is not a manifest in format {FORMAT}")
    files = _further(held, "files", request["files"])
    units = _further(held, "units", request["units"])
    masked = _further(held, "masked", request["units"])
    sysctl = _further(held, "sysctl", request["sysctls"])
    now = properties_of(sorted({*units, *masked}), ("UnitFileState", "ActiveState"), commands)
    this_boot = boot() if sysctl else ""

    def of_sysctl(key: str) -> dict[str, str]:
        return {"role": sysctl[key]["role"], "state": _sysctl(key, sysctl[key], this_boot)}

    return {
        "manifest": {
            "files": each(sorted(files), lambda path: _file(path, files[path])),
            "units": _states(units, lambda name: _running(now[name])),
            "masked": _states(
                masked, lambda name: "masked" if now[name]["UnitFileState"] == "masked" else ""
            ),
            "sysctl": each(sorted(sysctl), of_sysctl),
            # The reading "packages" shows which of them are installed.
            "packages": _states(
                held["packages"], lambda name: "on hold" if "held" in held["packages"][name] else ""
            ),
            "users": _states(held["users"], lambda name: _there(name, pwd.getpwnam)),
            "groups": _states(held["groups"], lambda name: _there(name, grp.getgrnam)),
        }
    }


def read_whole(request: Request, commands: Commands) -> Readings:
    """The whole manifest, with each entry's state. Roles use it to find and remove leftovers."""
    nothing = {**request, "files": [], "units": [], "sysctls": []}
    return {"manifest.whole": read_manifest(nothing, commands)["manifest"]}


def read_held(request: Request, commands: Commands) -> Readings:
    """The manifest as text ("" if there is none), and an identifier of this boot."""
    return {"manifest.held": {"text": text_of(MANIFEST, ""), "boot": boot()}}


def boot() -> str:
    """Return an identifier of this boot: the boot ID and the start time of PID 1.

    A container has its host's boot ID, so only the start time tells the container's boots apart.
    """
    return f"{line_of('/proc/sys/kernel/random/boot_id')} {started('1')}"


def _further(held: dict[str, Any], section: str, asked: list[str]) -> dict[str, Any]:
    return {name: entry for name, entry in held[section].items() if name not in asked}


def _states(entries: dict[str, Any], state: Callable[[str], str]) -> dict[str, Any]:
    return {name: {"role": entry["role"], "state": state(name)} for name, entry in entries.items()}


def _file(path: str, entry: dict[str, str]) -> dict[str, str]:
    now = read_file(path)
    known = {"role": entry["role"], "package": entry.get("package", "")}
    if "sha256" not in now:  # absent, or not a regular file
        return {**known, "state": now.get("other", "")}
    ours = now["sha256"] in (entry.get("sha256"), entry.get("before"))
    return {**known, "state": "unchanged" if ours else "changed", "sha256": now["sha256"]}


def _running(unit: dict[str, str]) -> str:
    """Return the states of a unit (``enabled, active``); "" if it is neither enabled nor active."""
    enabled, active = unit["UnitFileState"], unit["ActiveState"]
    words = [] if enabled in OFF else [enabled]
    return ", ".join(words if active in ("inactive", "failed") else [*words, active])


def _sysctl(key: str, entry: dict[str, str], this_boot: str) -> str:
    """Return the sysctl value that Lockstep set; "" if it is no longer in effect.

    A value that was dropped from the plan stays in effect until the next boot.
    """
    path = "/proc/sys/" + sysctl_path(key)
    if entry.get("dropped", this_boot) != this_boot or not exists(path):
        return ""
    now = sysctl_value(key)
    return now if now == " ".join(entry["value"].split()) else ""


def _there(name: str, find: Callable[[str], object]) -> str:
    try:
        find(name)
    except KeyError:
        return ""
    return "there"
