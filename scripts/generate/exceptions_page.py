"""Generates docs/fingerprint-exceptions.md: what a fingerprint leaves out, with the reasons."""

from __future__ import annotations

from lockstep.checks.rules.fingerprint import DOMAINS
from lockstep.node.fingerprint.exceptions import EXCEPTIONS
from lockstep.node.fingerprint.exempt import WHOLE, Exempt

FILE = "docs/fingerprint-exceptions.md"
HEAD = """\
# What a fingerprint leaves out

[Fingerprints](fingerprint.md) compare the whole configuration of nodes. These objects and fields
differ between equal nodes, or change without anybody's doing. `object` is a regular expression that
matches the whole name. `make generate` writes this page from `lockstep/node/fingerprint/`. A site
adds rows of its own under `checks: exceptions:`.
"""


def text() -> str:
    """Return the page."""
    parts = [HEAD]
    for domain, (title, _) in DOMAINS.items():
        rows = [row for row in EXCEPTIONS if row.domain == domain]
        if rows:
            parts.append(f"\n## {domain}: {title[0].lower()}{title[1:]}\n\n")
            parts.append("| object | field | reason |\n|---|---|---|\n")
            parts += map(_row, rows)
    return "".join(parts)


def _row(row: Exempt) -> str:
    field = "the whole object" if row.field == WHOLE else row.field
    return f"| {_code(row.object)} | {field} | {row.reason.rstrip('.')} |\n"


def _code(pattern: str) -> str:
    """Return a pattern as code in a table, where a vertical bar would end the cell."""
    escaped = pattern.replace("|", "\\|")
    return f"`{escaped}`"


def files() -> dict[str, bytes]:
    """Return the page."""
    return {FILE: text().encode("utf-8")}
