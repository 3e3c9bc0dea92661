"""Requested files: hash, mode, owner, time of change, text; the names of requested groups."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
from collections.abc import Callable, Sequence
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Readings, Request, Unread, each
from lockstep.node.readers.tree import LARGEST_FILE, bytes_of, exists, mode_of, rooted, text_of


def read_files(request: Request, commands: Commands) -> Readings:
    """Hash, mode and owner of each requested file."""
    return {"files": each(request["files"], read_file)}


KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder"}


def read_file(path: str) -> Any:
    """Return the hash, mode and owner of a file.

    For anything but a regular file, ``other`` with its kind replaces the hash. For a missing file,
    the only key is ``absent``.
    """
    try:
        about = os.lstat(rooted(path))
        if not stat.S_ISREG(about.st_mode):
            return {
                "other": KINDS.get(stat.S_IFMT(about.st_mode), "a special file"),
                **rights(about),
            }
        if about.st_size > LARGEST_FILE:
            raise Unread(f"{path} is larger than the limit of {LARGEST_FILE >> 20} MiB")
    except (FileNotFoundError, NotADirectoryError):
        return {"absent": True}
    return {"sha256": hashlib.sha256(bytes_of(path)).hexdigest(), **rights(about)}


LARGEST_TEXT = 1 << 20


def read_texts(request: Request, commands: Commands) -> Readings:
    """The content of each requested file, if every user of the node may read it."""
    return {"files.texts": each(request["texts"], read_text)}


def read_text(path: str) -> Any:
    """Return the text of a file, or why it is not shown; ``absent`` for a missing file.

    What other users of the node cannot read may be a secret, and never leaves the node.
    """
    try:
        about = os.lstat(rooted(path))
    except (FileNotFoundError, NotADirectoryError):
        return {"absent": True}
    if not stat.S_ISREG(about.st_mode):
        return {"hidden": KINDS.get(stat.S_IFMT(about.st_mode), "a special file")}
    if not about.st_mode & stat.S_IROTH:
        return {"hidden": "only some users of the node can read it"}
    if about.st_size > LARGEST_TEXT:
        return {"hidden": f"larger than {LARGEST_TEXT >> 20} MiB"}
    try:
        return {"text": bytes_of(path).decode("utf-8")}
    except UnicodeDecodeError:
        return {"hidden": "not text"}


def rights(about: os.stat_result) -> dict[str, str]:
    """Return the mode, user and group of a file."""
    return {
        "mode": mode_of(about),
        "user": name_of(about.st_uid, pwd.getpwuid),
        "group": name_of(about.st_gid, grp.getgrgid),
    }


def read_changed_files(request: Request, commands: Commands) -> Readings:
    """Change time and inode of each requested file; links are followed.

    Modification times are unsuitable: for packaged files, they date from the package's build.
    """
    return {"files.changed": each(request["changed"], read_changed)}


def read_changed(path: str) -> Any:
    """Return the change time and inode of a file, in the format of ``stat -L -c '%.9Z %i'``."""
    try:
        about = os.stat(rooted(path))
    except (FileNotFoundError, NotADirectoryError):
        return {"absent": True}
    seconds, rest = divmod(about.st_ctime_ns, 10**9)
    return f"{seconds}.{rest:09d} {about.st_ino}"


def read_naming(request: Request, commands: Commands) -> Readings:
    """Whether each requested file contains the requested text; False if there is no such file."""

    def names(asked: str) -> bool:
        path, _, text = asked.partition(" ")
        return exists(path) and text in text_of(path)

    return {"files.naming": each(request["naming"], names)}


def read_groups(request: Request, commands: Commands) -> Readings:
    """Names of the groups with the requested IDs; "absent" for an ID without a group."""
    numbers = request["groups"]
    return {"os.groups": {one: name_of(int(one), grp.getgrgid, ABSENT) for one in numbers}}


def name_of(number: int, find: Callable[[int], Sequence[Any]], otherwise: str = "") -> str:
    """Return a user's or group's name; without a name, ``otherwise`` or by default the number."""
    try:
        return str(find(number)[0])
    except KeyError:
        return otherwise or str(number)
