"""Writes reports and records to files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PUBLIC = 0o644
"""Mode of metrics files: node_exporter reads them as another user."""


def replace_file(path: str, text: str, mode: int) -> None:
    """Write a file with this mode atomically: readers see the old or the new file.

    Raises:
        OSError: the file cannot be written.
    """
    named = Path(path)
    if named.exists() and not named.is_file():  # do not replace /dev/stdout or change its mode
        named.write_text(text, encoding="utf-8")
        return
    target = named.resolve()
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            file.write(text)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
