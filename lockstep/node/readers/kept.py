"""Files that the probe keeps on nodes that Lockstep deploys, in a folder that only root can use."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from lockstep.node.readers.tree import exists, rooted

DEPLOYED = "/var/lib/lockstep/manifest.json"
"""Exists on nodes that Lockstep deploys (``lockstep.node.readers.manifest``)."""
CACHE = "/var/cache/lockstep"
OTHERS = 0o077
"""Rights of others, which neither the folder nor a file in it may give."""


def may_keep() -> bool:
    """Return whether Lockstep deploys this node, so that the probe may keep files on it."""
    return exists(DEPLOYED)


def kept(name: str) -> bytes:
    """Return the content of a file; nothing if there is none, or if others may have written it."""
    folder = _folder()
    if folder is None:
        return b""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        with open(file, "rb") as opened:
            about = os.fstat(file)
            return opened.read() if stat.S_ISREG(about.st_mode) and _is_ours(about) else b""
    except OSError:
        return b""
    finally:
        os.close(folder)


def keep(name: str, data: bytes) -> None:
    """Replace a file at once, so that a check at the same time reads the old or the new one.

    If that fails, for example because the file system is full, nothing is kept.
    """
    folder = _folder()
    if folder is None:
        return
    new = f"{name}.{os.getpid()}"
    try:
        file = os.open(
            new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=folder
        )
        with open(file, "wb") as opened:
            opened.write(data)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(new, dir_fd=folder)
    finally:
        os.close(folder)


def _folder() -> int | None:
    """Open the folder, or make it; None if the node has none, or if others can use it."""
    if not may_keep():
        return None
    try:
        with suppress(FileExistsError):
            os.mkdir(rooted(CACHE), 0o700)
        folder = os.open(rooted(CACHE), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # such as a read-only file system
        return None
    if _is_ours(os.fstat(folder)):
        return folder
    os.close(folder)
    return None


def _is_ours(about: os.stat_result) -> bool:
    return about.st_uid == os.geteuid() and not about.st_mode & OTHERS
