"""Secrets of a cluster: made once on the deploying side, kept there, never shown.

They live in one file with mode 0600: in the folder that the spec names (``secrets_dir``), else
below ``$XDG_STATE_HOME/lockstep`` or ``~/.local/state/lockstep``, one folder per cluster. Both
can be made again: a lost file means new secrets, which the next deploy of the whole cluster
spreads.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lockstep import state

MUNGE_KEY_BYTES = 128
"""munged(8) accepts 32 to 1024 bytes; mungekey(8) makes 128."""


class SecretsUnsafe(Exception):
    """The file of secrets can be read by others, or cannot be read as one."""


@dataclass(frozen=True)
class Secrets:
    """All secrets of one cluster. Nothing of it shows in a repr."""

    munge_key: bytes = field(repr=False)
    database_password: str = field(repr=False)

    @cached_property
    def munge_key_sha256(self) -> str:
        """What may be compared and shown in place of the key."""
        return hashlib.sha256(self.munge_key).hexdigest()

    @property
    def munge_key_base64(self) -> str:
        """The key in a form that survives text channels; as secret as the key."""
        return base64.b64encode(self.munge_key).decode("ascii")


def store(cluster: str, folder: str | None = None) -> Path:
    """Return the file that holds a cluster's secrets, whether or not it exists."""
    return state.folder(cluster, folder) / "secrets.json"


def existing(cluster: str, folder: str | None = None) -> Secrets | None:
    """Return the cluster's secrets, or None when none were made on this machine.

    Raises:
        SecretsUnsafe: others can read the file, or it is damaged.
    """
    path = store(cluster, folder)
    try:
        if not path.exists():
            return None
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise SecretsUnsafe(f"{path}: {error.strerror}; run as the account that made it") from error
    if mode & 0o077:
        raise SecretsUnsafe(f"{path}: mode {mode:04o}; expected 0600. Run: chmod 600 {path}")
    try:
        return _parsed(path.read_text(encoding="ascii"))
    except (ValueError, KeyError, TypeError) as error:
        raise SecretsUnsafe(
            f"{path}: not readable as secrets. Restore it from a backup, or remove it: "
            "the next deploy of the whole cluster then makes new ones"
        ) from error


def _parsed(text: str) -> Secrets:
    document = json.loads(text)
    key = base64.b64decode(document["munge_key"], validate=True)
    password = document["database_password"]
    # The password goes into SQL and a configuration file as it is; munged refuses a short key.
    if len(key) < 32 or not re.fullmatch(r"[A-Za-z0-9_-]+", password):
        raise ValueError("not what obtain() makes")
    return Secrets(key, password)


def obtain(cluster: str, folder: str | None = None) -> Secrets:
    """Return the cluster's secrets; make them when there are none. Safe to call in parallel."""
    found = existing(cluster, folder)
    if found is not None:
        return found
    path = store(cluster, folder)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = {
        "munge_key": base64.b64encode(secrets.token_bytes(MUNGE_KEY_BYTES)).decode("ascii"),
        "database_password": secrets.token_urlsafe(32),
    }
    # Written whole under another name, then linked: the first of several makers wins, and no
    # reader ever sees half a file. mkstemp makes it 0600.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            json.dump(made, file)
            file.flush()
            os.fsync(file.fileno())
        # When another maker was first, its secrets are the cluster's.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    found = existing(cluster, folder)
    if found is None:
        raise SecretsUnsafe(f"{path}: vanished while it was made")
    return found
