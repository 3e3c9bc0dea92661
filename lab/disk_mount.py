"""Reaching into the disk of a machine that is off."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.commands import tool_environment
from lab.disk_files import FIRST_SECTOR
from lab.errors import LabError

# $1: disk, $2: an empty folder. Ends when its standard input does.
_HOLD = f"""
mount -o loop,offset={FIRST_SECTOR * 512} "$1" "$2"
echo mounted
read -r end || true
umount "$2"
"""


@contextmanager
def mounted(disk: Path, folder: Path) -> Iterator[Path]:
    """The file system of a disk, written back in full when the context ends.

    It is mounted in a namespace of its own. In the host's, any program that copies the host's
    mounts in that moment (ip netns exec, every nspawn machine that starts) would keep it mounted
    while the machine's own kernel uses it already.

    Args:
        disk: the image file.
        folder: where to mount it; it stays empty for everybody else.

    Raises:
        LabError: it cannot be mounted or unmounted.
    """
    folder.mkdir(exist_ok=True)
    with subprocess.Popen(
        [
            # Ends with this program however that ends, and the mount and its loop device with it.
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
            raise AssertionError("Popen was asked for pipes")
        if holder.stdout.readline() != "mounted\n":
            raise LabError(f"{disk}: not mountable: {holder.stderr.read().strip()}")
        try:
            yield Path(f"/proc/{holder.pid}/root{folder}")
        finally:
            holder.stdin.close()
            said = holder.stderr.read().strip()
    if holder.returncode != 0:
        raise LabError(f"{disk}: not unmounted: {said}")
