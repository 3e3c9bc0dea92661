"""Secrets of a cluster: generated once on the control host, stored there, never shown.

They are stored in one file with mode 0600, in the spec's ``secrets_dir`` or else in the folder of
the cluster under ``$XDG_STATE_HOME/lockstep`` or ``~/.local/state/lockstep``. ``lockstep secrets``
generates them, and so does a deploy that includes the controller. If the file is lost, the next
deploy of the whole cluster generates and distributes new secrets.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from lockstep import state

MUNGE_KEY_BYTES = 128
"""Length of a new key: munged(8) accepts 32 to 1024 bytes, and mungekey(8) generates 128."""


MODE = 0o600
"""Mode of the secrets file."""

KUBERNETES = "kubernetes/"
"""Prefix of the names of Kubernetes' secrets in the file."""
ENCRYPTION_KEY = "encryption-key"
"""Name of the key, in base64, with which API servers encrypt Secrets."""
ENCRYPTION_BYTES = 32
"""Length of a key of secretbox (Kubernetes, Encrypting Confidential Data at Rest)."""
OF_KUBERNETES = (
    *("ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key", "front-proxy-ca.crt", "front-proxy-ca.key"),
    *("sa.key", "sa.pub", "prometheus.crt", "prometheus.key", ENCRYPTION_KEY),
)
"""Names of all secrets of Kubernetes."""

TITLES: Mapping[str, str] = {"munge_key": "munge key", "database_password": "database password"}
"""Field of ``Secrets`` and of the file -> its name in messages."""
AUTHORITIES = "kubernetes"
"""Stands for all secrets of Kubernetes, which only clusters with Kubernetes have."""
EVERY_TITLE: Mapping[str, str] = {**TITLES, AUTHORITIES: "certificate authorities of Kubernetes"}
"""Like ``TITLES``, with what only some clusters have."""


class SecretsUnsafe(Exception):
    """Raised when the secrets file is damaged, incomplete, or has the wrong owner or mode."""


@dataclass(frozen=True)
class Secrets:
    """All secrets of one cluster. Its repr shows none of them."""

    munge_key: bytes = field(repr=False)
    database_password: str = field(repr=False)
    module_key: bytes | None = field(default=None, repr=False)
    """The site's private key for kernel modules; None if the description has none, or if this
    machine lacks the file."""

    kubernetes: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Path below /etc/kubernetes/pki -> a certificate authority or a key of Kubernetes; empty if
    the cluster had no Kubernetes when its secrets were made."""

    @cached_property
    def munge_key_sha256(self) -> str:
        """Return the hash of the munge key, to be compared and shown instead of the key."""
        return hashlib.sha256(self.munge_key).hexdigest()


def store(cluster: str, folder: str | None = None) -> Path:
    """Return the path of a cluster's secrets file, whether or not it exists."""
    return state.folder(cluster, folder) / "secrets.json"


ModuleKey = tuple[str, str]
"""The path of the private key for kernel modules, and its certificate in PEM format."""


def existing(
    cluster: str, folder: str | None = None, module_key: ModuleKey | None = None
) -> Secrets | None:
    """Return the cluster's secrets, or None if this machine has none.

    Args:
        cluster: the name of the cluster.
        folder: ``secrets_dir`` of the description.
        module_key: the key of the site for kernel modules, which is in a file of its own.

    Raises:
        SecretsUnsafe: other users can read the file, this user cannot, it is damaged, or it lacks a
            secret.
    """
    path = store(cluster, folder)
    found = _read(path)
    if found is None:
        return None
    missing = [title for name, title in TITLES.items() if name not in found]
    if missing:
        raise SecretsUnsafe(
            f"{path}: the file has no {' and no '.join(missing)}. Next: lockstep secrets INVENTORY"
        )
    return Secrets(
        base64.b64decode(found["munge_key"]),
        found["database_password"],
        None if module_key is None else _module_key(*module_key),
        {
            name.removeprefix(KUBERNETES): value.encode("ascii")
            for name, value in found.items()
            if name.startswith(KUBERNETES)
        },
    )


def _module_key(path: str, certificate: str) -> bytes | None:
    """Return the private key for kernel modules; None if there is no file.

    Raises:
        SecretsUnsafe: as in ``existing``, or it is not the certificate's key without a passphrase.
    """
    # As in spec.x509: few descriptions have a key.
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )

    content = _content(Path(path))
    if content is None:
        return None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        key = load_pem_private_key(content, password=None)
        public = key.public_key().public_bytes(*form)
        known = x509.load_pem_x509_certificate(certificate.encode("utf-8")).public_key()
    except TypeError as error:  # cryptography's exception for a key with a passphrase
        raise SecretsUnsafe(
            f"{path}: the key has a passphrase, which DKMS cannot enter. "
            "Next: write a copy without one (openssl pkey), with mode 0600"
        ) from error
    except UnsupportedAlgorithm as error:
        raise SecretsUnsafe(
            f"{path}: {error}; expected an RSA key, which all kernels can check. Next: declare "
            "another key and its certificate in software.module_signing"
        ) from error
    except ValueError as error:
        raise SecretsUnsafe(
            f"{path}: not a private key in PEM format (software.module_signing.key)"
        ) from error
    if public != known.public_bytes(*form):
        raise SecretsUnsafe(
            f"{path}: this is not the key of the certificate in software.module_signing. "
            "Next: correct the path, or declare the certificate of this key"
        )
    # Without what else the file holds (attributes of openssl pkcs12, other line ends).
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _content(path: Path) -> bytes | None:
    """Return the content of a file that only its owner can read; None if it is missing."""
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
    return text


def _read(path: Path) -> dict[str, str] | None:
    """Return the valid contents of the secrets file, possibly incomplete; None if it is missing."""
    text = _content(path)
    if text is None:
        return None
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise ValueError("not a dictionary")
        # SQL and a configuration file contain the password unquoted; munged rejects a short key.
        if "munge_key" in document:
            key = base64.b64decode(document["munge_key"], validate=True)
            if len(key) < 32:
                raise ValueError("the key is too short")
        if "database_password" in document:
            password = document["database_password"]
            if not re.fullmatch(r"[A-Za-z0-9_-]+", password):
                raise ValueError("the password has invalid characters")
    except (ValueError, TypeError) as error:
        raise SecretsUnsafe(
            f"{path}: the file is damaged. Restore it from a backup, or remove it: "
            "the next deploy of the whole cluster then generates new secrets"
        ) from error
    return document


def complete(
    cluster: str,
    folder: str | None = None,
    munge_key: bytes | None = None,
    kubernetes: bool = False,
) -> tuple[str, ...]:
    """Generate the secrets that this machine lacks, and return their names (``EVERY_TITLE``).

    Safe to call in parallel: all callers on this machine have the same secrets afterwards.

    Args:
        cluster: the name of the cluster.
        folder: ``secrets_dir`` of the description.
        munge_key: the key of nodes that other tools have set up, instead of a new one.
        kubernetes: whether the cluster has Kubernetes, which needs certificate authorities.

    Raises:
        SecretsUnsafe: as in ``existing``; an incomplete file is completed. Or this machine has
            another munge key.
        OSError: the file cannot be written, or its folder cannot be locked.
    """
    path = store(cluster, folder)
    if munge_key is None and not _missing(_read(path), kubernetes):
        return ()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(path.parent):
        return _generate(path, munge_key, kubernetes)


def _missing(found: Mapping[str, str] | None, kubernetes: bool) -> tuple[str, ...]:
    """Return the names of the secrets that a file lacks."""
    missing = [name for name in TITLES if found is None or name not in found]
    if kubernetes and not {f"{KUBERNETES}{name}" for name in OF_KUBERNETES} <= (found or {}).keys():
        missing.append(AUTHORITIES)
    return tuple(missing)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes of this machine from generating secrets in a folder (flock(2))."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def key_of_nodes(path: Path) -> bytes:
    """Return the munge key in a file, such as a copy of /etc/munge/munge.key.

    Raises:
        SecretsUnsafe: there is no file, other users can read it, or it is no key.
    """
    key = _content(path)
    if key is None:
        raise SecretsUnsafe(f"{path}: no such file. Next: copy /etc/munge/munge.key of a node here")
    if not 32 <= len(key) <= 1024:
        raise SecretsUnsafe(f"{path}: {len(key)} bytes; a munge key has 32 to 1024 (munged(8))")
    return key


def _generate(path: Path, munge_key: bytes | None, kubernetes: bool) -> tuple[str, ...]:
    """Write the secrets that the file lacks; the caller has locked its folder."""
    found = _read(path)
    missing = _missing(found, kubernetes)
    key = base64.b64encode(munge_key or secrets.token_bytes(MUNGE_KEY_BYTES)).decode("ascii")
    if munge_key is not None and (found or {}).get("munge_key", key) != key:
        raise SecretsUnsafe(
            f"{path}: it has another munge key, which a deploy may have given to nodes. Next: if "
            'none has it, remove "munge_key" from the file, and run the command again'
        )
    if not missing:
        return ()
    made = {
        "munge_key": key,
        "database_password": secrets.token_urlsafe(32),
    }
    if AUTHORITIES in missing:
        # Imported here: most clusters do not have Kubernetes.
        from lockstep.certificates import completed

        known = {
            name.removeprefix(KUBERNETES): text
            for name, text in (found or {}).items()
            if name.startswith(KUBERNETES)
        }
        made |= {f"{KUBERNETES}{name}": text for name, text in completed(known).items()}
        encryption = base64.b64encode(secrets.token_bytes(ENCRYPTION_BYTES)).decode("ascii")
        made[f"{KUBERNETES}{ENCRYPTION_KEY}"] = encryption  # what is found takes its place
    # Readers never see a partial file. It is created with mode 0600.
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "w", encoding="ascii") as file:
            json.dump({**made, **(found or {})}, file)
            file.flush()
            os.fsync(file.fileno())
        if found is None:
            # A link fails if a process of another machine was first; then its secrets are used.
            try:
                os.link(temporary, path)
            except FileExistsError:
                return () if munge_key is None else _generate(path, munge_key, kubernetes)
        else:
            os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return missing


def obtain(
    cluster: str,
    folder: str | None = None,
    module_key: ModuleKey | None = None,
    kubernetes: bool = False,
) -> Secrets:
    """Return the cluster's secrets; generate those that are missing. Safe to call in parallel.

    The key for kernel modules is never generated: the site enrols its certificate. Arguments as in
    ``existing``.

    Raises:
        SecretsUnsafe: as in ``existing``; an incomplete file is completed.
        OSError: as in ``complete``.
    """
    complete(cluster, folder, kubernetes=kubernetes)
    found = existing(cluster, folder, module_key)
    if found is None:
        path = store(cluster, folder)
        raise SecretsUnsafe(f"{path}: another process removed the new file. Run the command again")
    return found
