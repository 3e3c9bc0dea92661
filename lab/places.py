"""Paths of the lab: caches shared by all labs, and the state of each lab."""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import LockHeldError, WrongUseError

NAME_VARIABLE = "LOCKSTEP_LAB"
BASE_VARIABLE = "LOCKSTEP_LAB_DIR"
DEFAULT_NAME = "lab"
NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,30}")


def lab_name(name: str | None = None) -> str:
    """Return the name of the lab: the argument, LOCKSTEP_LAB or "lab".

    Raises:
        WrongUseError: the name is invalid (it becomes part of folder and namespace names).
    """
    source = "--name" if name is not None else f"environment variable {NAME_VARIABLE}"
    chosen = name if name is not None else os.environ.get(NAME_VARIABLE) or DEFAULT_NAME
    if NAME_PATTERN.fullmatch(chosen) is None:
        raise WrongUseError(
            f"{source}: lab name {chosen!r} is invalid; expected lower-case letters, digits "
            "and '-', starting with a letter, at most 31 characters",
            "lockstep lab --name test1 up",
        )
    return chosen


def _base(below_var: str) -> Path:
    base = os.environ.get(BASE_VARIABLE)
    if not base:
        return Path("/var") / below_var / "lockstep-lab"
    # Overlay mount options separate paths with ':' and ','.
    if not base.startswith("/") or any(character in base for character in ":,\\\n"):
        raise WrongUseError(
            f"environment variable {BASE_VARIABLE}: {base!r} is invalid; expected an absolute "
            "path without ':' ',' or '\\'"
        )
    return Path(base) / ("cache" if below_var == "cache" else "state")


def cache_folder() -> Path:
    """Return the folder of images and the apt cache, which can be recreated."""
    return _base("cache")


def state_folder() -> Path:
    """Return the folder with the state of all labs and of the proxy, and the locks."""
    return _base("lib")


def lab_folder(name: str) -> Path:
    """Return the folder with the state of one lab."""
    return state_folder() / name


def node_folder(lab: str, node: str) -> Path:
    """Return a node's folder: ``upper``, ``work`` and the mount point ``root`` of its overlay."""
    return lab_folder(lab) / "nodes" / node


def node_root(lab: str, node: str) -> Path:
    """Return the host's path of a node's file system."""
    return node_folder(lab, node) / "root"


def proxy_folder() -> Path:
    """Return the folder with the proxy's state (the dot prevents a conflict with lab names)."""
    return state_folder() / ".proxy"


def known_labs() -> list[str]:
    """Return the names of all labs with a state folder."""
    if not state_folder().is_dir():
        return []
    return sorted(
        entry.name
        for entry in state_folder().iterdir()
        if entry.is_dir() and NAME_PATTERN.fullmatch(entry.name)
    )


@contextmanager
def locked(what: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock named ``what`` (a lab's name, ".image" or ".shared").

    Args:
        what: name of the lock.
        wait: if False, raise LockHeldError at once when another process holds the lock.
    """
    folder = state_folder() / ".locks"
    path = folder / f"{what}.lock"
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError as held:
            os.close(descriptor)
            raise LockHeldError(
                f"another lab command holds the lock {path}; wait until that command has finished"
            ) from held
        except BaseException:
            os.close(descriptor)
            raise
        # `purge` may have deleted the file meanwhile: then lock the new file.
        if path.exists() and os.stat(path).st_ino == os.fstat(descriptor).st_ino:
            break
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)
