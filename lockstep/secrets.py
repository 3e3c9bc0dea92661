"""Secrets of a cluster: generated once on the control host, stored there, never shown.

They are stored in one file with mode 0600, in the spec's ``secrets_dir`` or else in the folder of
the cluster under ``$XDG_STATE_HOME/lockstep`` or ``~/.local/state/lockstep``. If the file is lost,
the next deploy of the whole cluster generates and distributes new secrets.
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
"""Length of a new key: munged(8) accepts 32 to 1024 bytes, and mungekey(8) generates 128."""


class SecretsUnsafe(Exception):
    """Raised when the secrets file is damaged, readable by others, or not readable by this user."""


@dataclass(frozen=True)
class Secrets:
    """All secrets of one cluster. Its repr shows none of them."""

    munge_key: bytes = field(repr=False)
    database_password: str = field(repr=False)

    @cached_property
    def munge_key_sha256(self) -> str:
        """Return the hash of the munge key, to be compared and shown instead of the key."""
        return hashlib.sha256(self.munge_key).hexdigest()


def store(cluster: str, folder: str | None = None) -> Path:
    """Return the path of a cluster's secrets file, whether or not it exists."""
    return state.folder(cluster, folder) / "secrets.json"


def existing(cluster: str, folder: str | None = None) -> Secrets | None:
    """Return the cluster's secrets, or None if this machine has none.

    Raises:
        SecretsUnsafe: other users can read the file, this user cannot, or it is damaged.
    """
    path = store(cluster, folder)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SecretsUnsafe(f"{path}: {error.strerror}. Try again as the file's owner") from error
    if mode & 0o077:
        raise SecretsUnsafe(f"{path}: mode {mode:04o}; expected 0600. Run: chmod 600 {path}")
    try:
        document = json.loads(text)
        key = base64.b64decode(document["munge_key"], validate=True)
        password = document["database_password"]
        # SQL and a configuration file contain the password unquoted; munged rejects a short key.
        if len(key) < 32 or not re.fullmatch(r"[A-Za-z0-9_-]+", password):
            raise ValueError("the key is too short, or the password has invalid characters")
    except (ValueError, KeyError, TypeError) as error:
        raise SecretsUnsafe(
            f"{path}: the file is damaged. Restore it from a backup, or remove it: "
            "the next deploy of the whole cluster then generates new secrets"
        ) from error
    return Secrets(key, password)


def obtain(cluster: str, folder: str | None = None) -> Secrets:
    """Return the cluster's secrets; generate them if there are none. Safe to call in parallel."""
    found = existing(cluster, folder)
    if found is not None:
        return found
    path = store(cluster, folder)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = {
        "munge_key": base64.b64encode(secrets.token_bytes(MUNGE_KEY_BYTES)).decode("ascii"),
        "database_password": secrets.token_urlsafe(32),
    }
    # Write a temporary file, then link it: if several processes do so, the first wins, and readers
    # never see a partial file. The file is created with mode 0600.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="ascii") as file:
        json.dump(made, file)
        file.flush()
        os.fsync(file.fileno())
        # If another process was first, use its secrets.
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)
    found = existing(cluster, folder)
    if found is None:
        raise SecretsUnsafe(f"{path}: another process removed the new file. Run the command again")
    return found
