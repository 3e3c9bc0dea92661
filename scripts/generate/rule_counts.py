"""Updates the number of rules in the sample reports on the pages."""

from __future__ import annotations

import re
from pathlib import Path

from lockstep.checks.catalogue import all_rules

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
COUNT = re.compile(r"(?<=nodes, )\d+(?= rules\b)")


def files() -> dict[str, bytes]:
    """Return the pages with the current number of rules."""
    number = str(len(all_rules()))
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    return {
        name: COUNT.sub(number, text).encode("utf-8")
        for name, text in texts.items()
        if COUNT.search(text)
    }
