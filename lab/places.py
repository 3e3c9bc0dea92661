"""Where the lab keeps things: caches that outlive labs, and the state of each lab."""

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
    """The lab that is meant: the argument, else LOCKSTEP_LAB, else "lab".

    Raises:
        WrongUseError: not a usable name (it becomes part of folder and namespace names).
    """
    source = "--name" if name is not None else f"environment variable {NAME_VARIABLE}"
    chosen = name if name is not None else os.environ.get(NAME_VARIABLE) or DEFAULT_NAME
    if NAME_PATTERN.fullmatch(chosen) is None:
        raise WrongUseError(
            f"{source}: lab name {chosen!r} is not usable; expected lower-case letters, digits "
            "and '-', starting with a letter, at most 31 characters",
            "python -m lab --name test1 up",
        )
    return chosen


def _base(below_var: str) -> Path:
    base = os.environ.get(BASE_VARIABLE)
    if not base:
        return Path("/var") / below_var / "lockstep-lab"
    # Overlay mount options separate paths with ':' and ','.
    if not base.startswith("/") or any(character in base for character in ":,\\\n"):
        raise WrongUseError(
            f"environment variable {BASE_VARIABLE}: {base!r} is not usable; expected an absolute "
            "path without ':' ',' or '\\'"
        )
    return Path(base) / ("cache" if below_var == "cache" else "state")


def cache_folder() -> Path:
    """Images and the apt cache: everything that can be made again."""
    return _base("cache")


def state_folder() -> Path:
    """The state of all labs, of the proxy, and the locks."""
    return _base("lib")


def lab_folder(name: str) -> Path:
    """The state of one lab."""
    return state_folder() / name


def node_folder(lab: str, node: str) -> Path:
    """One node's files: ``upper`` and ``work`` of its overlay, ``root`` where it is mounted."""
    return lab_folder(lab) / "nodes" / node


def node_root(lab: str, node: str) -> Path:
    """The node's file system as the host sees it."""
    return node_folder(lab, node) / "root"


def proxy_folder() -> Path:
    """State of the one caching proxy (a dot keeps it apart from lab names)."""
    return state_folder() / ".proxy"


def known_labs() -> list[str]:
    """Names of all labs that have a state folder."""
    if not state_folder().is_dir():
        return []
    return sorted(
        entry.name
        for entry in state_folder().iterdir()
        if entry.is_dir() and NAME_PATTERN.fullmatch(entry.name)
    )


@contextmanager
def locked(what: str, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock called ``what`` (a lab's name, or ".image", ".shared"): one process at a time.

    Args:
        what: name of the lock.
        wait: False raises LockHeldError at once when another process holds it.
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
                f"another lab command holds {path}; wait until it has ended"
            ) from held
        except BaseException:
            os.close(descriptor)
            raise
        # `purge` may have deleted the file while this process waited: then lock the new one.
        if path.exists() and os.stat(path).st_ino == os.fstat(descriptor).st_ino:
            break
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)
