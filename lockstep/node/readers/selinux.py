"""SELinux: the mode, modules, booleans and labels, running and on disk.

selinux(8), semodule(8), booleans(8), selinux_config(5).
"""

from __future__ import annotations

import os
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, each
from lockstep.node.readers.tree import assignments, exists, line_of, rooted, text_of

KERNEL = "/sys/fs/selinux"
CONFIG = "/etc/selinux/config"
SWITCH = {"0": "off", "1": "on"}


def read_mode(request: Request, commands: Commands) -> Readings:
    """The running mode, and the mode and policy of the next boot."""
    running = {"1": "enforcing", "0": "permissive"}.get(line_of(f"{KERNEL}/enforce", "no"))
    config = _config()
    return {
        "selinux.mode": {
            "running": running or "disabled",
            "persisted": config.get("SELINUX", ABSENT).lower(),
            "policy": config.get("SELINUXTYPE", ABSENT),
        }
    }


def read_modules(request: Request, commands: Commands) -> Readings:
    """The SHA256 of each requested module of the policy; for a module in CIL, that of its source.

    semodule prints it from 3.4 on.
    """
    asked = request["selinux_modules"]
    if not asked:
        return {"selinux.modules": {}}
    rows = [line.split() for line in commands.run("semodule", "-l", "-m").splitlines()]
    found = {row[0]: row[-1].partition(":")[2] for row in rows if row}
    return {"selinux.modules": {name: found.get(name, ABSENT) for name in asked}}


def read_booleans(request: Request, commands: Commands) -> Readings:
    """The value of each requested boolean, now and after a boot.

    The kernel shows the present value. The policy's store has what ``setsebool -P`` has set; a
    boolean that is not listed there has the policy's default, which nothing shows.
    """

    def read(name: str) -> dict[str, str]:
        shown = line_of(f"{KERNEL}/booleans/{name}", "").split()
        running = SWITCH.get(shown[0], ABSENT) if shown else ABSENT
        return {"running": running, "persisted": SWITCH.get(kept.get(name, ""), "not set")}

    asked = request["selinux_booleans"]
    policy = _config().get("SELINUXTYPE", "targeted")
    kept = assignments(text_of(f"/var/lib/selinux/{policy}/active/booleans.local", ""))
    return {"selinux.booleans": each(asked, read)}


def read_labels(request: Request, commands: Commands) -> Readings:
    """The type of the label of each requested path."""

    def read(path: str) -> Any:
        if not os.path.lexists(rooted(path)):
            return ABSENT
        try:
            label = os.getxattr(rooted(path), "security.selinux", follow_symlinks=False)
        except OSError as error:
            raise Unread(f"{path}: no label: {error.strerror}") from None
        words = label.rstrip(b"\0").decode("utf-8", "replace").split(":")
        if len(words) < 3:
            raise Unread(f"{path}: not a label: {':'.join(words)[:60]}")
        return words[2]

    return {"selinux.labels": each(request["selinux_labels"], read)}


def _config() -> dict[str, str]:
    return assignments(text_of(CONFIG, "")) if exists(CONFIG) else {}
