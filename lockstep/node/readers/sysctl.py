"""Kernel parameters: in force, and what boot would set."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, each
from lockstep.node.readers.tree import found_by, text_of

SYSCTL_FOLDERS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")


def sysctl_path(key: str) -> str:
    """Return the path below /proc/sys of a key in either notation (sysctl.d(5))."""
    first = re.search(r"[./]", key)
    if first and first.group() == ".":
        return key.translate(str.maketrans("./", "/."))
    return key


def matches(path: str, pattern: str) -> bool:
    """Say whether a pattern covers a path; "*" does not reach over a slash."""
    names, patterns = path.split("/"), pattern.split("/")
    return len(names) == len(patterns) and all(
        fnmatch.fnmatchcase(names[index], patterns[index]) for index in range(len(names))
    )


def read_sysctl_running(request: Request, commands: Commands) -> Readings:
    """Values in force, from /proc/sys."""

    def read(key: str) -> str:
        return " ".join(text_of("/proc/sys/" + sysctl_path(key)).split())

    return {"sysctl.running": each(request["sysctls"], read)}


def read_sysctl_persisted(request: Request, commands: Commands) -> Readings:
    """What systemd-sysctl would set at boot, and the file that decides."""
    files: dict[str, str] = {}
    for folder in SYSCTL_FOLDERS:  # the first folder that has a name hides it in the others
        for path in found_by(folder + "/*.conf"):
            files.setdefault(os.path.basename(path), path)
    exact: dict[str, dict[str, str]] = {}
    patterns: dict[str, dict[str, str]] = {}
    excluded: set[str] = set()
    for name in sorted(files):
        for line in text_of(files[name]).splitlines():
            line = line.strip()
            if not line or line[0] in "#;":
                continue
            key, assigned, value = line.partition("=")
            key = sysctl_path(key.strip().lstrip("-").strip())
            if not assigned:
                excluded.add(key)
                continue
            kind = patterns if re.search(r"[*?\[]", key) else exact
            kind.pop(key, None)  # so that the last one in wins among the patterns too
            kind[key] = {"value": " ".join(value.split()), "file": files[name]}

    def read(asked: str) -> Any:
        path = sysctl_path(asked)
        if path in exact:
            return exact[path]
        for pattern in reversed(list(patterns)):
            if path not in excluded and matches(path, pattern):
                return patterns[pattern]
        return {"absent": True}

    return {"sysctl.persisted": {key: read(key) for key in request["sysctls"]}}
