"""The kernel arguments of the next boot, from the boot loader's configuration."""

from __future__ import annotations

import os
import re

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.files import read_changed
from lockstep.node.readers.grub import (
    ENTRIES,
    entry_of,
    environment,
    grub_words,
    menus,
    name_of,
    read_grub,
)
from lockstep.node.readers.kernel import version_key
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import exists, found_by, text_of

GRUBENV = "/boot/grub2/grubenv"
ASSIGNED = re.compile(r"^\s*(GRUB_CMDLINE_LINUX\w*)=([\"']?)(.*)\2[ \t]*$", re.MULTILINE)
"""Variable, quote and value of an assignment in /etc/default/grub."""
LATER = "/etc/kernel/cmdline"
"""File with the kernel arguments that kernel-install(8) gives to kernels installed later."""


def read_cmdline_persisted(request: Request, commands: Commands) -> Readings:
    """Kernel arguments of the next boot.

    They come from the default entry of GRUB's menu or, on the RHEL family, from the default Boot
    Loader Specification entry. /etc/default/grub is read only if neither exists.
    """
    grub = read_grub()
    entries = found_by(ENTRIES + "/*.conf")
    if entries and ("blscfg" in grub.lines or not menus()):
        return {"kernel.cmdline_persisted": default_entry(entries)}
    if menus():
        arguments_next = grub.next_arguments()
        if arguments_next is None:
            raise Unread(grub.unclear())
        return {"kernel.cmdline_persisted": arguments_next}
    paths = found_by("/etc/default/grub") + found_by("/etc/default/grub.d/*.cfg")
    if not paths:
        raise Unread("the node has no grub.cfg, no boot loader entries and no /etc/default/grub")
    arguments: dict[str, list[str]] = {}
    for key, _, value in ASSIGNED.findall("\n".join(map(text_of, paths))):
        words = grub_words(value)
        own = [word for word in words if word not in ("$" + key, f"${{{key}}}")]
        kept = arguments.get(key, []) if len(own) < len(words) else []
        arguments[key] = kept + own
    return {"kernel.cmdline_persisted": [word for words in arguments.values() for word in words]}


def read_cmdline_entries(request: Request, commands: Commands) -> Readings:
    """Kernel arguments of each Boot Loader Specification entry, and of kernels installed later."""
    paths = found_by(ENTRIES + "/*.conf")
    variables = environment()
    found = each(paths, lambda path: entry_arguments(path, variables))
    if exists(LATER):
        found[LATER] = grub_words(" ".join(text_of(LATER).splitlines()))
    return {"kernel.cmdline_entries": found}


def read_initramfs(request: Request, commands: Commands) -> Readings:
    """Change time and inode of the running kernel's initramfs, as in ``files.changed``."""
    release = os.uname().release
    paths = (f"/boot/initrd.img-{release}", f"/boot/initramfs-{release}.img")
    there = next((path for path in paths if exists(path)), paths[0])
    return {"kernel.initramfs": read_changed(there)}


def default_entry(paths: list[str]) -> list[str]:
    """Return the default entry's kernel arguments; raise ``Unread`` if the default is unclear."""
    # In GRUB's order, in which an entry's position is the index that grubby(8) uses.
    ordered = sorted(paths, key=lambda path: version_key(name_of(path)), reverse=True)
    variables = environment()
    wanted = variables.get("next_entry") or variables.get("saved_entry") or ""
    chosen = [
        path for index, path in enumerate(ordered) if wanted in (*entry_of(path).names, str(index))
    ]
    if not wanted:
        kernels = [path for path in ordered if "-0-rescue" not in path] or ordered
        if len({name_of(path).split("-", 1)[0] for path in kernels}) > 1:
            raise Unread(
                f"{GRUBENV} sets no saved_entry, and {ENTRIES} has entries for several machine IDs"
            )
        chosen = kernels[:1]
    if len(chosen) != 1:
        raise Unread(f"{GRUBENV}: default {wanted!r} matches {len(chosen)} entries in {ENTRIES}")
    return entry_arguments(chosen[0], variables)


def entry_arguments(path: str, variables: dict[str, str]) -> list[str]:
    """Return the kernel arguments of a boot entry, with GRUB's variables expanded."""
    options = " ".join(re.findall(r"^options[ \t]+(.*)$", text_of(path), re.MULTILINE))
    if re.search(r"\$\{?kernelopts\b", options) and "kernelopts" not in variables:
        raise Unread(
            f"{GRUBENV} does not set kernelopts, but {os.path.basename(path)} refers to it"
        )
    # An unset variable is empty, as in GRUB: for example $tuned_params, if TuneD did not set it.
    expanded = re.sub(r"\$\{?(\w+)\}?", lambda name: variables.get(name.group(1), ""), options)
    return grub_words(expanded)
