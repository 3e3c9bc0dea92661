"""Writes a draft as an inventory file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from lockstep.describe.values import Block, Value

WIDTH = 100
INDENT = "    "


def inventory(draft: Block, head: Iterable[str], groups: Iterable[str]) -> str:
    """Return the text of an inventory file.

    Args:
        draft: the description.
        head: lines of the comment at its beginning.
        groups: names of the host groups at its end.
    """
    lines = [
        *(f"# {part}".rstrip() for line in head for part in _lines(line)),
        "",
        "from lockstep.inventory import plan_or_exit",
        "",
        "_cluster = plan_or_exit(",
        *_block("", draft, 1),
        f"{INDENT}__file__,",
        ")",
        "",
        *(f'{name} = _cluster.group("{name}")' for name in groups),
    ]
    return "\n".join(lines) + "\n"


def _block(key: str, block: Block, depth: int) -> Iterator[str]:
    indent = INDENT * depth
    opening, closing = "[]" if block.rows else "{}"
    yield from _above(block.above, indent)
    if not block.parts:
        yield f"{indent}{key}{opening}{closing},"
        return
    yield f"{indent}{key}{opening}"
    for name, part in block.parts.items():
        inner = "" if block.rows else f"{literal(name)}: "
        if isinstance(part, Block):
            yield from _block(inner, part, depth + 1)
        else:
            yield from _value(inner, part, depth + 1)
    yield f"{indent}{closing},"


def _value(key: str, one: Value, depth: int) -> Iterator[str]:
    indent = INDENT * depth
    yield from _above(one.above, indent)
    line, note = f"{indent}{key}{literal(one.value)},", _comment(one.note)
    if note and len(line) + len(note) + 4 <= WIDTH:
        yield f"{line}  # {note}"
        return
    yield from _above([note], indent)
    yield line


def _above(comments: Iterable[str], indent: str) -> Iterator[str]:
    for one in comments:
        yield from (
            f"{indent}# {part}" for part in _wrapped(_comment(one), WIDTH - len(indent) - 2)
        )


def _lines(text: str) -> list[str]:
    return [*_wrapped(_comment(text), WIDTH - 2)] or [""]


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split():
        if line and len(line) + len(word) + 1 > width:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    if line:
        yield line


def literal(value: Any) -> str:
    """Return a value as Python source. Text from a node never ends a string."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value.isprintable() else repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    return repr(value)


def _comment(text: str) -> str:
    """Return a text on one line, without characters that could end a comment."""
    return "".join(one if one.isprintable() else " " for one in " ".join(text.split()))
