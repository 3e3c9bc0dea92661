"""Which kernels GRUB may boot next, from its menu and its environment block. Pure.

GRUB's manual, "default", "menuentry" and "Environment block"; Boot Loader Specification, for the
entries of ``blscfg`` on the RHEL family.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

RELEASE = re.compile(r"/vmlinuz-(\S+)")
RESCUE = "0-rescue-"
"""Kernel of an entry that is only ever chosen by hand."""
NEXT_ENTRY, SAVED_ENTRY = "${next_entry}", "${saved_entry}"


@dataclass
class Entry:
    """A menu entry, a submenu with its entries, or the menu itself."""

    names: frozenset[str] = frozenset()
    """Title and id: GRUB takes both."""
    release: str = ""
    """Of its kernel; "" for none that is known."""
    entries: list[Entry] = field(default_factory=list)
    numbered: int | None = None
    """So many entries have a known number: the next stands in an ``if``; None: all have."""

    def chosen(self, default: str) -> str:
        """Return the kernel of the entry that a value of ``default`` means; "" for unknown."""
        name, deeper, rest = default.partition(">")
        found: list[Entry] = []
        if name.strip().isdecimal():
            found = self.entries[: self.numbered][int(name) :][:1]
        elif ">>" not in default:  # how a title writes its own ">"
            found = [entry for entry in self.entries if name in entry.names]
        if len(found) != 1:
            return ""
        return found[0].chosen(rest) if deeper else found[0].release


def menu(lines: Sequence[str], further: Sequence[Entry]) -> Entry:
    """Return the menu that a grub.cfg makes.

    Args:
        lines: of grub.cfg, without indentation: those that open, fill and close entries.
        further: entries that ``blscfg`` would add; their order is GRUB's own.
    """
    top = Entry()
    open_now: list[Entry | None] = []
    conditions = 0
    for line in lines:
        inside = next((one for one in reversed(open_now) if one is not None), top)
        if line.startswith("if ") and not line.endswith(" fi"):
            conditions += 1
        elif line == "fi":
            conditions -= 1
        elif line.startswith("function "):
            open_now.append(None)
        elif line.startswith(("menuentry ", "submenu ")):
            entry = Entry(_names(line))
            if conditions and inside.numbered is None:
                inside.numbered = len(inside.entries)
            inside.entries.append(entry)
            if not line.endswith("}"):
                open_now.append(entry)
        elif line.startswith("linux") and (found := RELEASE.search(line)):
            inside.release = inside.release or found.group(1)
        elif line == "blscfg":
            top.numbered = len(top.entries) if top.numbered is None else top.numbered
            top.entries.extend(further)
        elif line == "}" and open_now:
            open_now.pop()
    return top


def boots_next(lines: Sequence[str], env: Mapping[str, str], further: Sequence[Entry]) -> str:
    """Return the kernel that GRUB boots next; "" where it cannot be told.

    Args:
        lines: of grub.cfg, as ``menu`` takes them, and its ``set default=``.
        env: variables of the environment block (grubenv).
        further: as ``menu`` takes them.
    """
    made = menu(lines, further)
    kernels = {one for one in releases(made) if not one.startswith(RESCUE)}
    if len(kernels) == 1:
        return kernels.pop()
    return made.chosen(default) if (default := _default(lines, env)) is not None else ""


def releases(entry: Entry) -> list[str]:
    """Return the kernels of an entry and of all below it."""
    own = [entry.release] if entry.release else []
    return own + [release for one in entry.entries for release in releases(one)]


def _default(lines: Sequence[str], env: Mapping[str, str]) -> str | None:
    """Return what GRUB's variable ``default`` will be; None where scripts decide."""
    values = [_words(line)[-1].partition("=")[2] for line in lines if line.startswith("set def")]
    if NEXT_ENTRY in values and env.get("next_entry"):
        return env["next_entry"]
    others = {value for value in values if value != NEXT_ENTRY} or {"0"}
    if len(others) != 1:
        return None
    (value,) = others
    if value == SAVED_ENTRY:
        value = env.get("prev_saved_entry") or env.get("saved_entry", "")
    # Nothing saved yet: GRUB takes the first.
    return None if "$" in value else value or "0"


def _names(line: str) -> frozenset[str]:
    words = _words(line)
    ids = [after for word, after in pairwise(words) if _is_id(word)]
    ids += [word.partition("=")[2] for word in words if word.startswith("--id=")]
    return frozenset([*words[1:2], *ids])


def _is_id(word: str) -> bool:
    return word in ("$menuentry_id_option", "${menuentry_id_option}", "--id")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # GRUB itself would stumble over a lone quote too
        return line.split()
