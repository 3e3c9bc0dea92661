"""Secrets of a cluster: generated once on the control host, stored there, never shown.

They are stored in one file with mode 0600, in the spec's ``secrets_dir`` or else in
``$XDG_STATE_HOME/lockstep`` or ``~/.local/state/lockstep``, one folder per cluster. If the file
is lost, the next deploy of the whole cluster generates and distributes new secrets.
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
"""munged(8) accepts 32 to 1024 bytes; mungekey(8) generates 128."""


class SecretsUnsafe(Exception):
    """Other users can read the secrets file, or it is damaged."""


@dataclass(frozen=True)
class Secrets:
    """All secrets of one cluster. Its repr shows none of them."""

    munge_key: bytes = field(repr=False)
    database_password: str = field(repr=False)

    @cached_property
    def munge_key_sha256(self) -> str:
        """Hash that may be compared and shown instead of the key."""
        return hashlib.sha256(self.munge_key).hexdigest()

    @property
    def munge_key_base64(self) -> str:
        """The key as base64 text; as secret as the key itself."""
        return base64.b64encode(self.munge_key).decode("ascii")


def store(cluster: str, folder: str | None = None) -> Path:
    """Return the path of a cluster's secrets file, whether or not it exists."""
    return state.folder(cluster, folder) / "secrets.json"


def existing(cluster: str, folder: str | None = None) -> Secrets | None:
    """Return the cluster's secrets, or None when this machine has none.

    Raises:
        SecretsUnsafe: other users can read the file, or it is damaged.
    """
    path = store(cluster, folder)
    try:
        if not path.exists():
            return None
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise SecretsUnsafe(f"{path}: {error.strerror}. Run as the user that owns it") from error
    if mode & 0o077:
        raise SecretsUnsafe(f"{path}: mode {mode:04o}; expected 0600. Run: chmod 600 {path}")
    try:
        return _parsed(path.read_text(encoding="ascii"))
    except (ValueError, KeyError, TypeError) as error:
        raise SecretsUnsafe(
            f"{path}: the file is damaged. Restore it from a backup, or remove it: "
            "the next deploy of the whole cluster then generates new secrets"
        ) from error


def _parsed(text: str) -> Secrets:
    document = json.loads(text)
    key = base64.b64decode(document["munge_key"], validate=True)
    password = document["database_password"]
    # The password is inserted unquoted into SQL and a file; munged rejects a short key.
    if len(key) < 32 or not re.fullmatch(r"[A-Za-z0-9_-]+", password):
        raise ValueError("not written by obtain()")
    return Secrets(key, password)


def obtain(cluster: str, folder: str | None = None) -> Secrets:
    """Return the cluster's secrets; generate them if missing. Safe to call in parallel."""
    found = existing(cluster, folder)
    if found is not None:
        return found
    path = store(cluster, folder)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = {
        "munge_key": base64.b64encode(secrets.token_bytes(MUNGE_KEY_BYTES)).decode("ascii"),
        "database_password": secrets.token_urlsafe(32),
    }
    # Write a temporary file, then link it: of several processes the first wins, and readers
    # never see a partial file. mkstemp creates it with mode 0600.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            json.dump(made, file)
            file.flush()
            os.fsync(file.fileno())
        # If another process was first, use its secrets.
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    found = existing(cluster, folder)
    if found is None:
        raise SecretsUnsafe(f"{path}: the file was removed while it was created. Run it again")
    return found
