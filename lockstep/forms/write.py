"""Forms and records into files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PUBLIC = 0o644
"""Of metrics: node_exporter reads them as a user of its own."""


def replace_file(path: str, text: str, mode: int) -> None:
    """Write a file of this mode at once: who reads it has the old or the new one, never half.

    Raises:
        OSError: it cannot be written.
    """
    named = Path(path)
    if named.exists() and not named.is_file():  # /dev/stdout has no mode of ours
        named.write_text(text, encoding="utf-8")
        return
    target = named.resolve()
    handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            file.write(text)
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise
