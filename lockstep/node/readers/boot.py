"""Kernel arguments of the next boot, as the boot loader has them."""

from __future__ import annotations

import os
import re
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.grub import ENTRIES, FOLDERS, grub_words, read_grub
from lockstep.node.readers.reading import Readings, Request, Unread
from lockstep.node.readers.tree import exists, found_by, text_of

GRUBENV = "/boot/grub2/grubenv"


def read_cmdline_persisted(request: Request, commands: Commands) -> Readings:
    """Kernel arguments that the next boot will have.

    From the default entry of GRUB's menu; from that of the Boot Loader Specification's entries
    (RHEL); else from what Debian's menu is made from.
    """
    grub = read_grub(FOLDERS[:1])
    if any(line.startswith("linux") for line in grub.lines):
        arguments_next = grub.next_arguments()
        if arguments_next is None:
            raise Unread(grub.unclear())
        return {"kernel.cmdline_persisted": arguments_next}
    entries = found_by(ENTRIES + "/*.conf")
    if entries:
        return {"kernel.cmdline_persisted": default_entry(entries)}
    paths = found_by("/etc/default/grub.d/*.cfg")
    if exists("/etc/default/grub"):
        paths.insert(0, "/etc/default/grub")
    if not paths:
        raise Unread("/etc/default/grub: no such file")
    arguments: dict[str, list[str]] = {}
    for path in paths:
        text = text_of(path)
        for key, value in re.findall(r"^\s*(GRUB_CMDLINE_LINUX\w*)=(.*)$", text, re.MULTILINE):
            value = value.strip()
            if value[:1] in ("'", '"') and value[-1:] == value[:1]:
                value = value[1:-1]
            words = grub_words(value)
            own = [word for word in words if word not in ("$" + key, f"${{{key}}}")]
            kept = arguments.get(key, []) if len(own) < len(words) else []
            arguments[key] = kept + own
    return {"kernel.cmdline_persisted": [word for words in arguments.values() for word in words]}


def version_key(name: str) -> list[Any]:
    """Return a key that sorts names of entries as rpm compares versions: numbers are numbers."""
    # "~" sorts before the end of the name, numbers after words.
    parts = re.findall(r"\d+|[A-Za-z]+|~", name)
    return [
        (-1, 0, "") if part == "~" else (2, int(part), "") if part.isdigit() else (1, 0, part)
        for part in parts
    ] + [(0, 0, "")]


def default_entry(paths: list[str]) -> list[str]:
    """Return the kernel arguments of the entry that GRUB boots; ``Unread`` when that is unclear."""
    known = {os.path.basename(path)[: -len(".conf")]: text_of(path) for path in paths}
    names = sorted(known, key=version_key, reverse=True)  # GRUB's order, and grubby's index
    env = text_of(GRUBENV) if exists(GRUBENV) else ""
    variables = dict(re.findall(r"^([A-Za-z_]\w*)=(.*)$", env, re.MULTILINE))
    wanted = variables.get("next_entry") or variables.get("saved_entry") or ""
    chosen = [
        name
        for index, name in enumerate(names)
        if wanted in (name, str(index))
        or re.search(r"^title\s+" + re.escape(wanted) + r"\s*$", known[name], re.MULTILINE)
    ]
    if not wanted:
        kernels = [name for name in names if "-0-rescue" not in name] or names
        if len({name.split("-", 1)[0] for name in kernels}) > 1:
            raise Unread(f"{ENTRIES}: entries of several machine ids, and no saved_entry")
        chosen = kernels[:1]
    if len(chosen) != 1:
        raise Unread(f"{GRUBENV}: {wanted!r} names {len(chosen)} entries of {ENTRIES}")
    options = " ".join(re.findall(r"^options[ \t]+(.*)$", known[chosen[0]], re.MULTILINE))
    if re.search(r"\$\{?kernelopts\b", options) and "kernelopts" not in variables:
        raise Unread(f"{GRUBENV}: no kernelopts, which {chosen[0]}.conf refers to")
    # A variable that is not set is nothing, as in GRUB: $tuned_params where TuneD set none.
    expanded = re.sub(r"\$\{?(\w+)\}?", lambda name: variables.get(name.group(1), ""), options)
    return grub_words(expanded)
