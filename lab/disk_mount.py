"""Mounts the disk of a machine that is off."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.commands import tool_environment
from lab.disk_files import FIRST_SECTOR
from lab.errors import LabError

# $1: disk, $2: an empty folder. Ends at the end of its standard input.
_HOLD = f"""
mount -o loop,offset={FIRST_SECTOR * 512} "$1" "$2"
echo mounted
read -r end || true
umount "$2"
"""


@contextmanager
def mounted(disk: Path, folder: Path) -> Iterator[Path]:
    """Mount the file system of a disk; all changes are on the disk when the context ends.

    It is mounted in a separate mount namespace. Otherwise programs that copy the host's mounts at
    that moment (ip netns exec, each starting nspawn machine) would keep it mounted while the
    machine's kernel already uses it.

    Args:
        disk: the image file.
        folder: mount point; it stays empty for all other programs.

    Raises:
        LabError: the disk cannot be mounted or unmounted.
    """
    folder.mkdir(exist_ok=True)
    with subprocess.Popen(
        [
            # The process ends with this program, and with it the mount and the loop device.
            *("setpriv", "--pdeathsig=KILL", "unshare", "--mount"),
            *("sh", "-euc", _HOLD, "lockstep-lab", str(disk), str(folder)),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=tool_environment(),
        start_new_session=True,
    ) as holder:
        if holder.stdin is None or holder.stdout is None or holder.stderr is None:
            raise AssertionError("Popen did not return the requested pipes")
        if holder.stdout.readline() != "mounted\n":
            raise LabError(f"{disk}: cannot be mounted: {holder.stderr.read().strip()}")
        try:
            yield Path(f"/proc/{holder.pid}/root{folder}")
        finally:
            holder.stdin.close()
            output = holder.stderr.read().strip()
    if holder.returncode != 0:
        raise LabError(f"{disk}: cannot be unmounted: {output}")
