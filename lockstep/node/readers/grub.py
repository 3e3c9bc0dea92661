"""The entry that GRUB will boot next, from its menu and its environment block.

Sources: the GRUB manual ("default", "menuentry", "Environment block") and, for the entries that
``blscfg`` adds on the RHEL family, the Boot Loader Specification.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from lockstep.node.readers.tree import exists, found_by, text_of

FOLDERS = ("/boot/grub", "/boot/grub2")
"""Folders with grub.cfg and grubenv: on Debian, and on the RHEL family."""
NO_KERNEL = f"{' and '.join(FOLDERS)}: no entry with a kernel in grub.cfg"
ENTRIES = "/boot/loader/entries"
"""Folder with Boot Loader Specification entries; an entry's ID is its file name without .conf."""
LINE = re.compile(
    r"\s*((?:menuentry|submenu|function|if|linux(?:16|efi)?)\s.*|set default=.*|blscfg|fi|\})\s*"
)
"""The relevant lines of grub.cfg: entries, their kernels, conditions and the default."""
RELEASE = re.compile(r"/vmlinuz-(\S+)")
RESCUE = "0-rescue-"
"""Prefix of a rescue entry's kernel release. Rescue entries boot only if someone selects them."""
RECOVERY = "-recovery-"
"""Part of the ID of Debian's recovery entries, which boot only if someone selects them."""
NEXT_ENTRY, SAVED_ENTRY = "${next_entry}", "${saved_entry}"
CHOICES = ("next_entry", "saved_entry", "prev_saved_entry")
ID_OPTIONS = ("$menuentry_id_option", "${menuentry_id_option}", "--id")


@dataclass
class Entry:
    """A menu entry, a submenu with its entries, or the menu itself."""

    names: frozenset[str] = frozenset()
    """Title and ID of the entry; GRUB accepts either as its name."""
    release: str = ""
    """Release of the entry's kernel; "" if it is unknown."""
    arguments: list[str] | None = None
    """Arguments of the entry's kernel; None for an entry without a kernel."""
    entries: list[Entry] = field(default_factory=list)
    numbered: int | None = None
    """Number of entries, from the top, whose positions are known. An ``if`` or ``blscfg`` makes the
    positions after it uncertain. None: all positions are known."""

    def chosen(self, default: str) -> Entry | None:
        """Return the entry that a value of ``default`` selects; None if it is unknown."""
        name, deeper, rest = default.partition(">")
        found: list[Entry] = []
        if name.strip().isdecimal():
            found = self.entries[: self.numbered][int(name) :][:1]
        elif ">>" not in default:  # in a title, ">>" means ">"
            found = [entry for entry in self.entries if name in entry.names]
        if len(found) != 1:
            return None
        return found[0].chosen(rest) if deeper else found[0]

    def every(self) -> Iterator[Entry]:
        """Yield this entry and all entries below it."""
        yield self
        for one in self.entries:
            yield from one.every()


@dataclass(frozen=True)
class Grub:
    """GRUB's configuration on disk."""

    lines: list[str]
    """The lines of grub.cfg that ``LINE`` matches, without indentation."""
    env: dict[str, str]
    """Variables of the environment block (grubenv)."""
    further: list[Entry]
    """Entries that ``blscfg`` would add, but not in GRUB's order."""

    def menu(self) -> Entry:
        """Return the menu of grub.cfg."""
        top = Entry()
        open_now: list[Entry | None] = []
        conditions = 0
        for line in self.lines:
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
            elif line.startswith("linux") and inside.arguments is None:
                found = RELEASE.search(line)
                inside.release = found.group(1) if found else ""
                inside.arguments = grub_words(line)[2:]
            elif line == "blscfg":
                top.numbered = len(top.entries) if top.numbered is None else top.numbered
                top.entries.extend(self.further)
            elif line == "}" and open_now:
                open_now.pop()
        return top

    def default(self) -> Entry | None:
        """Return the entry that will boot next; None if that is unclear."""
        values = [
            grub_words(line)[-1].partition("=")[2]
            for line in self.lines
            if line.startswith("set def")
        ]
        if NEXT_ENTRY in values and self.env.get("next_entry"):
            return self._meant(self.env["next_entry"])
        others = {value for value in values if value != NEXT_ENTRY} or {"0"}
        if len(others) != 1:
            return None
        (value,) = others
        if value == SAVED_ENTRY:
            value = self.env.get("prev_saved_entry") or self.env.get("saved_entry", "")
        # If nothing is saved yet, GRUB boots the first entry.
        return None if "$" in value else self._meant(value or "0")

    def _meant(self, default: str) -> Entry | None:
        entry = self.menu().chosen(default)
        return entry if entry is not None and (entry.release or entry.arguments) else None

    def next_kernel(self) -> str:
        """Return the release of the kernel that will boot next; "" if that is unclear."""
        kernels = {one for one in self.releases() if not one.startswith(RESCUE)}
        if len(kernels) == 1:
            return kernels.pop()
        entry = self.default()
        return entry.release if entry is not None else ""

    def releases(self) -> list[str]:
        """Return the kernel releases of all entries, without duplicates."""
        found = [one.release for one in self.menu().every() if one.release]
        return list(dict.fromkeys(found))

    def next_arguments(self) -> list[str] | None:
        """Return the kernel arguments of the next boot; None if they are unclear."""
        entry = self.default()
        if entry is not None:
            return entry.arguments
        may = [
            one.arguments
            for one in self.menu().every()
            if one.arguments is not None and not any(RECOVERY in name for name in one.names)
        ]
        return may[0] if may and all(one == may[0] for one in may) else None

    def unclear(self) -> str:
        """Return why it is unclear what the next boot will use."""
        if all(one.arguments is None and not one.release for one in self.menu().every()):
            return NO_KERNEL
        saved = ", ".join(self.env[name] for name in self.env if name in CHOICES)
        return (
            "GRUB's default is not an entry in its menu, or a script decides what boots "
            f"(saved in grubenv: {saved or 'nothing'})"
        )


def read_grub() -> Grub:
    """Return GRUB's configuration; it has no lines if there is no grub.cfg."""
    found = [LINE.fullmatch(line) for path in menus() for line in text_of(path).splitlines()]
    lines = [line.group(1).strip() for line in found if line]
    return Grub(lines, environment(), [entry_of(path) for path in found_by(ENTRIES + "/*.conf")])


def menus() -> list[str]:
    """Return the paths of the grub.cfg files that exist."""
    return [path for path in (f"{folder}/grub.cfg" for folder in FOLDERS) if exists(path)]


def environment() -> dict[str, str]:
    """Return the variables of GRUB's environment block."""
    blocks = [f"{folder}/grubenv" for folder in FOLDERS]
    text = "\n".join(text_of(path) for path in blocks if exists(path))
    return dict(re.findall(r"^([A-Za-z_]\w*)=(.*)$", text, re.MULTILINE))


def name_of(path: str) -> str:
    """Return the ID of a Boot Loader Specification entry."""
    return os.path.basename(path)[: -len(".conf")]


def entry_of(path: str) -> Entry:
    """Return a Boot Loader Specification entry, without its kernel arguments."""
    name = name_of(path)
    keys = dict(re.findall(r"^(title|linux)\s+(.*?)\s*$", text_of(path), re.MULTILINE))
    kernel = RELEASE.search(keys.get("linux", ""))
    names = frozenset({name, keys.get("title", name)})
    return Entry(names, kernel.group(1) if kernel else "")


def _names(line: str) -> frozenset[str]:
    words = grub_words(line)
    ids = [words[index + 1] for index, word in enumerate(words[:-1]) if word in ID_OPTIONS]
    ids += [word.partition("=")[2] for word in words if word.startswith("--id=")]
    return frozenset([*words[1:2], *ids])


def grub_words(text: str) -> list[str]:
    """Return the words in a line of GRUB's script language, without quotes."""
    try:
        return shlex.split(text)
    except ValueError:  # GRUB itself fails on an unclosed quote, too
        return text.split()
