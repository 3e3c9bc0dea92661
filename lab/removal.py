"""Deletes folders in which file systems may be mounted."""

import shutil
from pathlib import Path

from lab.commands import run
from lab.errors import LabError


def mounts_below(folder: Path) -> list[str]:
    """Return the mount points at or below a folder in this mount namespace, deepest first."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # mountinfo escapes space, tab, newline and backslash as octal numbers.
        point = line.split()[4].encode().decode("unicode_escape")
        if point == str(folder) or point.startswith(f"{folder}/"):
            found.append(point)
    return sorted(found, key=len, reverse=True)


def unmount_below(folder: Path) -> None:
    """Unmount everything at or below a folder.

    Raises:
        LabError: a file system is still in use.
    """
    for point in mounts_below(folder):
        run(["umount", point], what=f"unmounting {point}")


def remove_tree(folder: Path) -> None:
    """Delete a folder if it exists.

    Raises:
        LabError: a file system is mounted below it and would be deleted as well.
    """
    if not folder.exists():
        return
    mounted = mounts_below(folder)
    if mounted:
        raise LabError(
            f"{folder}: not deleted, {mounted[0]} is still mounted", f"umount {mounted[0]}"
        )
    shutil.rmtree(folder)
