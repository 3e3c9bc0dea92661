"""Files that are asked for: hash, mode and owner."""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import stat
from typing import Any

from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Readings, Request, Unread, each
from lockstep.node.readers.tree import LARGEST_FILE, rooted


def read_files(request: Request, commands: Commands) -> Readings:
    """Hash, mode and owner of each file asked for."""
    return {"files": each(request["files"], read_file)}


KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder"}


def read_file(path: str) -> Any:
    """One file: hash, mode and owner; or that it is absent, or no file at all."""
    try:
        about = os.lstat(rooted(path))
        if not stat.S_ISREG(about.st_mode):
            return {"other": KINDS.get(stat.S_IFMT(about.st_mode), "a special file")}
        if about.st_size > LARGEST_FILE:
            raise Unread(f"{path}: larger than {LARGEST_FILE >> 20} MiB")
        with open(rooted(path), "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return {"absent": True}
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None
    return {
        "sha256": digest,
        "mode": f"{stat.S_IMODE(about.st_mode):o}",
        "user": account(about.st_uid),
        "group": group(about.st_gid),
    }


def read_changed_files(request: Request, commands: Commands) -> Readings:
    """When each file asked for was last changed, and its inode; links are followed.

    The change time and not the modification time: packages bring files with the date of their
    build.
    """
    return {"files.changed": each(request["changed"], read_changed)}


def read_changed(path: str) -> Any:
    """One file, as ``stat -L -c '%.9Z %i'`` prints it."""
    try:
        about = os.stat(rooted(path))
    except (FileNotFoundError, NotADirectoryError):
        return {"absent": True}
    except OSError as error:
        raise Unread(f"{path}: {error.strerror}") from None
    seconds, rest = divmod(about.st_ctime_ns, 10**9)
    return f"{seconds}.{rest:09d} {about.st_ino}"


def account(number: int) -> str:
    """Return the name of a user, its number when it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def group(number: int) -> str:
    """Return the name of a group, its number when it has none."""
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
