"""Commands that revert differences of sysctls, modules, mounts and swap areas."""

from __future__ import annotations

import re

from lockstep.checks.fingerprint.reverting.case import Case, Steps, command
from lockstep.node.fingerprint.sysctl import COMPUTED

OPPOSITES = {
    "ro": "rw",
    "noexec": "exec",
    "nosuid": "suid",
    "nodev": "dev",
    "noatime": "atime",
    "nodiratime": "diratime",
    "nosymfollow": "symfollow",
    "relatime": "",
}
"""Flags of a mount (mount(8)) -> options that clear them; "" if the other options do."""
KEY = re.compile(r"[\w./-]+")


def of_sysctl(case: Case) -> Steps:
    """Return the commands that set a sysctl, or those of an interface."""
    if case.is_extra or case.is_missing or not KEY.fullmatch(case.name):
        return []
    steps = []
    for field in sorted(case.changed):
        value = case.should(field)
        if not value or value == COMPUTED or not case.was(field):
            return []
        key = case.name if field == "value" else f"{case.name}.{field}"
        steps.append(command("sysctl", "-w", f"{key}={value}"))
    return steps


def of_module(case: Case) -> Steps:
    """Return the command that loads or unloads a module."""
    if case.is_extra and case.was("kind") == "loaded":
        return [command("modprobe", "-r", case.name)]
    if case.is_missing and case.should("kind") == "loaded":
        return [command("modprobe", case.name)]
    return []


def of_mount(case: Case) -> Steps:
    """Return the command that unmounts what is mounted too much, or sets the flags of a mount.

    mount(8) keeps flags that the command does not name, so those too many are named by their
    opposites.
    """
    place, hidden, _ = case.name.partition(" #")
    if case.is_extra:
        return [command("umount", place)]
    if hidden or case.is_missing or case.changed != {"options"}:
        return []
    now, wanted = (set(filter(None, text.split(",")))
                   for text in (case.was("options"), case.should("options")))  # fmt: skip
    if not now - wanted <= OPPOSITES.keys():
        return []
    # Without an option for access times, each access is recorded.
    recorded = [] if wanted & {"relatime", "noatime"} else ["strictatime"]
    undone = [OPPOSITES[flag] for flag in sorted(now - wanted) if OPPOSITES[flag]]
    writable = ["rw"] if "ro" not in wanted | now else []
    # With "bind", flags of the mount alone are set, and a file system that refuses is not asked.
    options = ["bind", *writable, *undone, *sorted(wanted), *recorded]
    return [command("mount", "-o", ",".join(["remount", *options]), place)]


def of_swap(case: Case) -> Steps:
    """Return the command that switches a swap area off or on."""
    if not case.name.startswith("/") or not (case.is_extra or case.is_missing):
        return []
    return [command("swapoff" if case.is_extra else "swapon", case.name)]
