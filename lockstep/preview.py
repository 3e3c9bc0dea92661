"""What a deploy would change in a file of a node, as lines of text that hold no secret."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lockstep.files import ManagedFile

CONTROL = re.compile(r"[^\t\x20-\x7e\xa0-\U0010ffff]")
"""Characters that a terminal would obey instead of showing them."""


def is_planned(file: ManagedFile, state: Mapping[str, Any]) -> bool:
    """Return whether a file of a node has the planned content, mode and owner.

    Args:
        file: the planned file.
        state: the file's entry in the node's reading ``files``.
    """
    return state.get("sha256") == file.sha256 and _rights(state) == planned_rights(file)


def changes(
    file: ManagedFile, state: Mapping[str, Any], text: Mapping[str, Any] | None
) -> Iterator[str]:
    """Yield the lines that show what a deploy would change in a file; none if nothing.

    Args:
        file: the planned file.
        state: the file's entry in the node's reading ``files``.
        text: the file's entry in the node's reading ``files.texts``; None for a secret file.
    """
    if is_planned(file, state):
        return
    planned = planned_rights(file)
    if "absent" in state:
        yield f"{file.path}: new, {planned}, {_size(file)}"
        return
    if "other" in state:
        yield f"{file.path}: {state['other']}, becomes a file, {planned}, {_size(file)}"
        return
    if (rights := _rights(state)) != planned:
        yield f"{file.path}: {rights} becomes {planned}"
    if state["sha256"] != file.sha256:
        yield from _content(file, text)


def planned_rights(file: ManagedFile) -> str:
    """Return the planned mode and owner: ``644 root:root``."""
    return f"{file.mode} {file.user}:{file.group}"


def shown(line: str) -> str:
    """Return a line with the characters escaped that a terminal would obey."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", line)


def _rights(state: Mapping[str, Any]) -> str:
    return " ".join((str(state.get("mode")), f"{state.get('user')}:{state.get('group')}"))


def _size(file: ManagedFile) -> str:
    return "secret" if file.secret else f"{len(file.content)} bytes"


def _content(file: ManagedFile, text: Mapping[str, Any] | None) -> Iterator[str]:
    if file.secret or text is None:
        yield f"{file.path}: secret, different"
        return
    try:
        planned = file.content.decode("utf-8")
    except UnicodeDecodeError:
        yield f"{file.path}: different content, not text"
        return
    if "text" not in text:
        why = text.get("hidden") or text.get("unread") or "absent by now"
        yield f"{file.path}: different content, not shown: {why}"
        return
    lines = difflib.unified_diff(
        text["text"].splitlines(),
        planned.splitlines(),
        f"{file.path} on the node",
        f"{file.path} planned",
        n=2,
        lineterm="",
    )
    found = [*map(shown, lines)]
    yield from found or [f"{file.path}: the ends of its lines differ"]
