"""What GRUB boots next: from its menu and its environment block.

GRUB's manual, "default", "menuentry" and "Environment block"; Boot Loader Specification, for the
entries of ``blscfg`` on the RHEL family.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lockstep.node.readers.tree import exists, found_by, text_of

FOLDERS = ("/boot/grub", "/boot/grub2")
"""Folder of grub.cfg and grubenv: Debian's, the RHEL family's."""
ENTRIES = "/boot/loader/entries"
"""Boot Loader Specification; the name of a file is the id of its entry."""
LINE = re.compile(
    r"\s*((?:menuentry|submenu|function|if|linux(?:16|efi)?)\s.*|set default=.*|blscfg|fi|\})\s*"
)
"""Lines that open, fill and close entries, and the default."""
RELEASE = re.compile(r"/vmlinuz-(\S+)")
RESCUE = "0-rescue-"
"""Kernel of an entry that is only ever chosen by hand."""
RECOVERY = "-recovery-"
"""In the id of Debian's entries that are only ever chosen by hand."""
NEXT_ENTRY, SAVED_ENTRY = "${next_entry}", "${saved_entry}"


class Entry:
    """A menu entry, a submenu with its entries, or the menu itself."""

    def __init__(self, names: Iterable[str] = (), release: str = "") -> None:
        """Make an entry.

        Args:
            names: title and id: GRUB takes both.
            release: of its kernel; "" for none that is known.
        """
        self.names = frozenset(names)
        self.release = release
        self.arguments: list[str] | None = None
        """Of its kernel; None for an entry without one."""
        self.entries: list[Entry] = []
        self.numbered: int | None = None
        """So many entries have a known number: the next stands in an ``if``; None: all have."""

    def chosen(self, default: str) -> Entry | None:
        """Return the entry that a value of ``default`` means; None for unknown."""
        name, deeper, rest = default.partition(">")
        found: list[Entry] = []
        if name.strip().isdecimal():
            found = self.entries[: self.numbered][int(name) :][:1]
        elif ">>" not in default:  # how a title writes its own ">"
            found = [entry for entry in self.entries if name in entry.names]
        if len(found) != 1:
            return None
        return found[0].chosen(rest) if deeper else found[0]

    def every(self) -> Iterator[Entry]:
        """Yield this entry and all below it."""
        yield self
        for one in self.entries:
            yield from one.every()


class Grub:
    """GRUB's configuration as it lies on the disk."""

    def __init__(
        self, lines: Sequence[str], env: Mapping[str, str], further: Sequence[Entry]
    ) -> None:
        """Take a configuration.

        Args:
            lines: of grub.cfg, without indentation: those that open, fill and close entries, and
                the default.
            env: variables of the environment block (grubenv).
            further: entries that ``blscfg`` would add; their order is GRUB's own.
        """
        self.lines, self.env, self.further = lines, env, further

    def menu(self) -> Entry:
        """Return the menu that grub.cfg makes."""
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
        """Return the entry that boots next; None where it cannot be told."""
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
        # Nothing saved yet: GRUB takes the first.
        return None if "$" in value else self._meant(value or "0")

    def _meant(self, default: str) -> Entry | None:
        entry = self.menu().chosen(default)
        return entry if entry is not None and (entry.release or entry.arguments) else None

    def next_kernel(self) -> str:
        """Return the kernel that boots next; "" where it cannot be told."""
        kernels = {one for one in self.releases() if not one.startswith(RESCUE)}
        if len(kernels) == 1:
            return kernels.pop()
        entry = self.default()
        return entry.release if entry is not None else ""

    def releases(self) -> list[str]:
        """Return the kernels of all entries, each once."""
        found = [one.release for one in self.menu().every() if one.release]
        return list(dict.fromkeys(found))

    def next_arguments(self) -> list[str] | None:
        """Return the kernel arguments of the next boot; None where they cannot be told."""
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
        """Return why it cannot be told what boots next."""
        saved = ", ".join(self.env.values()) or "nothing is saved"
        return f"GRUB's default is none of its menu's entries, or a script decides ({saved})"


def read_grub(folders: Sequence[str] = FOLDERS) -> Grub:
    """Return GRUB's configuration; without any lines where there is none."""
    lines: list[str] = []
    env: dict[str, str] = {}
    for folder in folders:
        if exists(f"{folder}/grub.cfg"):
            found = map(LINE.fullmatch, text_of(f"{folder}/grub.cfg").splitlines())
            lines += [line.group(1).strip() for line in found if line]
        if exists(f"{folder}/grubenv"):
            block = text_of(f"{folder}/grubenv")
            env.update(re.findall(r"^((?:next|saved|prev_saved)_entry)=(.*)$", block, re.MULTILINE))
    return Grub(lines, env, [_further(path) for path in found_by(ENTRIES + "/*.conf")])


def _further(path: str) -> Entry:
    name = os.path.basename(path)[: -len(".conf")]
    keys = dict(re.findall(r"^(title|linux)\s+(.*?)\s*$", text_of(path), re.MULTILINE))
    kernel = RELEASE.search(keys.get("linux", ""))
    names = frozenset({name, keys.get("title", name)})
    return Entry(names, kernel.group(1) if kernel else "")


def _names(line: str) -> frozenset[str]:
    words = grub_words(line)
    ids = [words[index + 1] for index, word in enumerate(words[:-1]) if _is_id(word)]
    ids += [word.partition("=")[2] for word in words if word.startswith("--id=")]
    return frozenset([*words[1:2], *ids])


def _is_id(word: str) -> bool:
    return word in ("$menuentry_id_option", "${menuentry_id_option}", "--id")


def grub_words(text: str) -> list[str]:
    """Return the words of a line of GRUB's script language, quotes removed as GRUB does it."""
    try:
        return shlex.split(text)
    except ValueError:  # GRUB itself would stumble over a lone quote too
        return text.split()
