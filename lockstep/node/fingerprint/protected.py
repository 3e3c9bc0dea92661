"""Values that look like secrets."""

from __future__ import annotations

import re

from lockstep.node.fingerprint.entry import Secret

NAMES = re.compile(
    r".*(pass|pwd|pw$|token|secret|credential|key$|key_|private|auth|jwt|dsn|bearer|cookie).*",
    re.IGNORECASE | re.DOTALL,
)
ADDRESS = re.compile(r"://[^/@\s]+:[^/@\s]+@")
"""An address with a password."""


def shown(name: str, value: str) -> str:
    """Return a value, as a secret if its name or a part of it looks like one."""
    return Secret(value) if looks_secret(name, value) else value


def looks_secret(name: str, value: str) -> bool:
    """Return whether the name of a variable, or an address in its value, looks like a secret."""
    return bool(NAMES.fullmatch(name) or ADDRESS.search(value))


def shown_line(line: str) -> str:
    """Return a command line, as a secret if one of its options looks like one with a value."""
    words = line.replace("=", " ").split()
    secret = any(word.startswith("-") and NAMES.fullmatch(word) for word in words[1:-1])
    return Secret(line) if secret or ADDRESS.search(line) else line
