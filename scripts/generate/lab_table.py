"""Generates the table in docs/lab.md of what a lab replaces in a description."""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from lab.description.replacements import REPLACEMENTS, Replacement, left_out

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/lab.md"
MARK = re.compile(r"(<!-- table: replacements -->\n).*?(<!-- end of table -->)", re.DOTALL)


def _kind(row: Replacement) -> tuple[str, str]:
    return ("left out" if row.value is left_out else "the lab's", row.reason)


def table() -> str:
    """Return the table, with one line for neighbouring fields of the same reason."""
    lines = ["| fields | in the lab | because |", "|---|---|---|"]
    for (value, reason), rows in groupby(REPLACEMENTS, key=_kind):
        fields = ", ".join(f"`{'.'.join(map(str, row.path))}`" for row in rows)
        lines.append(f"| {fields} | {value} | {reason} |")
    return "\n".join(lines) + "\n"


def files() -> dict[str, bytes]:
    """Return the page with its table."""
    page = MARK.sub(lambda found: found[1] + table() + found[2], PAGE.read_text(encoding="utf-8"))
    return {"docs/lab.md": page.encode("utf-8")}
