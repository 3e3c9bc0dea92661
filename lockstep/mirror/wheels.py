"""Lockstep's own Python packages, as the file of pinned requirements lists them."""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lockstep.mirror.trouble import MirrorError, Trouble

FOLDER = "wheels"
LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
"""The requirements of Lockstep; in a checkout, a link to its file."""


@dataclass(frozen=True)
class Requirement:
    """One pinned Python package."""

    name: str
    version: str
    hashes: frozenset[str]
    """SHA-256 of each file that pip may install."""


def requirements(lock: Path) -> tuple[Requirement, ...]:
    """Return the packages of a file of pinned requirements with hashes.

    Raises:
        OSError: the file cannot be read.
        ValueError: a package has no hash.
    """
    text = lock.read_text(encoding="utf-8")
    found = []
    for name, version, rest in re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)((?:.*\\\n)*.*)$", text, re.MULTILINE
    ):
        hashes = frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", rest))
        if not hashes:
            raise ValueError(f"{lock}: {name} {version} has no --hash=sha256:...")
        found.append(Requirement(name, version, hashes))
    if not found:
        raise ValueError(f"{lock}: no pinned package (NAME==VERSION) was found")
    return tuple(found)


def key(lock: Path) -> str:
    """Return what decides which files pip fetches: the requirements, Python and the machine."""
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    return f"{digest} {sys.implementation.cache_tag} {platform.machine()}"


def files(folder: Path, wanted: Sequence[Requirement]) -> dict[str, str]:
    """Return file name -> SHA-256 of the files in a folder that pip may install."""
    every = frozenset[str]().union(*(one.hashes for one in wanted))
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.is_file()
    }
    return {name: digest for name, digest in found.items() if digest in every}


def fetch(lock: Path, folder: Path) -> None:
    """Fetch the packages into a folder, for this machine's Python; pip verifies their hashes.

    Raises:
        MirrorError: pip is missing or fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = ("--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "-r", lock, "-d", folder],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = " ".join((errors or done.stderr.splitlines() or [str(done.returncode)])[:2])
        raise MirrorError(
            Trouble(
                f"Python packages ({lock})",
                f"pip download failed: {reason}",
                "check the network and pip's configuration (pip config list); or leave them out "
                "(--lock none)",
            )
        )
