"""Disks of QEMU machines: built without emulation, cached until they are outdated.

One disk per role, each based on the bare system that nspawn machines share.
"""

import hashlib
import os
import signal
import struct
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab import disk_files, places, state
from lab.commands import run
from lab.errors import LabError, LockHeldError
from lab.image import Image
from lab.processes import ProcessRecord, kill, start_recorded
from lab.removal import remove_tree, unmount_below
from lab.state import NodeRole

ROLES: tuple[NodeRole, ...] = ("head", "worker")
BUILD_TIMEOUT_S = 1800
# Increase this when a change below changes the result: it is part of the cache key.
RECIPE = "1"
PARTITION_TABLE_AT = 446


@dataclass(frozen=True)
class DiskImage:
    """Finished disks: one file per role, and their kernel."""

    folder: Path

    def disk(self, role: NodeRole) -> Path:
        """Initial disk of every node of a role."""
        return self.folder / f"{role}.raw"

    @property
    def kernel(self) -> Path:
        """The disks' kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The disks' initramfs."""
        return self.folder / "initrd.img"

    @property
    def accelerator(self) -> Path:
        """File with the result of the trial boot on this host."""
        return self.folder / "accelerator.json"

    @property
    def finished(self) -> bool:
        """Whether the disks exist."""
        return self.folder.is_dir()


def _disks() -> Path:
    return places.cache_folder() / "disks"


def _unfinished() -> Path:
    return _disks() / ".unfinished"


def of_image(image: Image) -> DiskImage:
    """Return the disks of a bare system, built or not."""
    key = hashlib.sha256(RECIPE.encode())
    for name, value in sorted(vars(disk_files).items()):
        if name.lstrip("_").isupper():
            key.update(f"{name}={value!r}\0".encode())
    return DiskImage(_disks() / f"{image.folder.name}-{key.hexdigest()[:12]}")


def ensure(image: Image) -> DiskImage:
    """Return the disks of a bare system; build them if they do not exist.

    Raises:
        LabError: the build failed.
    """
    with places.locked(".disks"):
        clear_unfinished()
        disks = of_image(image)
        if not disks.finished:
            _build(image, disks)
        _delete_outdated(disks)
        return disks


def _delete_outdated(current: DiskImage) -> None:
    in_use = {str(current.folder)}
    for lab in places.known_labs():
        used = state.read_to_remove(lab)
        if used is not None and used.disks is not None:
            in_use.add(used.disks)
    for folder in _disks().iterdir():
        if str(folder) not in in_use:
            remove_tree(folder)


def clear_unfinished() -> None:
    """Remove the processes and the folder of a killed build. The caller must hold the lock."""
    for record in _unfinished().glob("*.process.json"):
        kill(ProcessRecord.model_validate_json(record.read_text()), group=True)
    unmount_below(_unfinished())
    remove_tree(_unfinished())


def _build(image: Image, disks: DiskImage) -> None:
    started = time.monotonic()
    print(f"building the disk image {disks.folder.name} (about a minute) ...", flush=True)
    draft = DiskImage(_unfinished())
    draft.folder.mkdir(parents=True)
    try:
        _build_bootable(image, draft)
        print(f"  bare system with a kernel: {time.monotonic() - started:.0f} s", flush=True)
        with ThreadPoolExecutor(len(ROLES)) as pool:
            for step in [pool.submit(_build_role, draft, role) for role in ROLES]:
                step.result()
        kept = {draft.kernel, draft.initrd, *(draft.disk(role) for role in ROLES)}
        for path in set(draft.folder.iterdir()) - kept:
            if path.is_dir():
                remove_tree(path)
            else:
                path.unlink()
        os.replace(draft.folder, disks.folder)
    except BaseException:
        clear_unfinished()
        raise
    print(f"disk image built in {time.monotonic() - started:.0f} s", flush=True)


def _write_files(folder: Path, files: Mapping[str, str], identity: str) -> None:
    folder.mkdir()
    for relative, content in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("@UUID@", identity))


def _partition_table() -> bytes:
    """Return the end of a master boot record with one active Linux partition."""
    first = disk_files.FIRST_SECTOR
    sectors = disk_files.DISK_MIB * 2048 - first
    # CHS addresses are out of range, as on every modern disk.
    beyond = b"\xfe\xff\xff"
    partition = b"\x80" + beyond + b"\x83" + beyond + struct.pack("<II", first, sectors)
    return partition + bytes(3 * 16) + b"\x55\xaa"


def _build_bootable(image: Image, draft: DiskImage) -> None:
    disk = draft.folder / "bootable.raw"
    identity = str(uuid.uuid4())
    with disk.open("wb") as file:
        file.truncate(disk_files.DISK_MIB * 2**20)
        file.seek(PARTITION_TABLE_AT)
        file.write(_partition_table())
    offset = disk_files.FIRST_SECTOR * 512
    run(
        [
            *("mke2fs", "-q", "-F", "-t", "ext4", "-m", "1", "-U", identity, "-L", "lockstep-lab"),
            # Few inode tables, written now: a guest would otherwise write them for minutes.
            *("-N", "200000"),
            *("-E", f"offset={offset},lazy_itable_init=0,lazy_journal_init=0"),
            *(str(disk), f"{disk_files.DISK_MIB * 1024 - offset // 1024}k"),
        ],
        what="creating a file system",
    )
    _write_files(draft.folder / "files", disk_files.FILES, identity)
    _run_script(
        draft,
        "bootable",
        disk_files.BOOT_SCRIPT,
        [
            *(str(draft.folder / "files"), str(image.root), str(draft.folder)),
            *disk_files.BOOT_PACKAGES,
        ],
    )


def _build_role(draft: DiskImage, role: NodeRole) -> None:
    copy_sparse(draft.folder / "bootable.raw", draft.disk(role))
    _write_files(draft.folder / f"files-{role}", disk_files.FILES_OF[role], "")
    _run_script(
        draft,
        role,
        disk_files.ROLE_SCRIPT,
        [
            *(str(draft.folder / f"files-{role}"), " ".join(disk_files.UNITS_OF[role])),
            *disk_files.PREINSTALLED[role],
        ],
    )


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a disk atomically, with its holes."""
    unfinished = target.with_name(f"{target.name}.new")
    run(
        ["cp", "--sparse=always", "--reflink=auto", str(source), str(unfinished)],
        what=f"copying a disk to {target}",
        timeout=600,
    )
    os.replace(unfinished, target)


def _run_script(draft: DiskImage, name: str, script: str, arguments: Sequence[str]) -> None:
    """Run a build script; record its process, so that it can be killed if this program dies."""
    log = draft.folder / f"{name}.log"
    mount_point = draft.folder / f"{name}.root"
    mount_point.mkdir()
    process = start_recorded(
        [
            # All processes and mounts of the script end with its first process.
            *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
            *("sh", "-euc", script, name),
            *(str(draft.folder / f"{name}.raw"), str(mount_point), *arguments),
        ],
        lambda record: _save_record(draft, name, record),
        log=log,
    )
    try:
        status = process.wait(BUILD_TIMEOUT_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if status != 0:
        tail = "\n    ".join(log.read_text(errors="replace").splitlines()[-15:])
        raise LabError(f"building the disk image ({name}): exit status {status}:\n    {tail}")


def _save_record(draft: DiskImage, name: str, record: ProcessRecord) -> None:
    (draft.folder / f"{name}.process.json").write_text(record.model_dump_json() + "\n")


def delete_all() -> None:
    """Remove all disk images."""
    if _disks().is_dir():
        with places.locked(".disks"):
            clear_unfinished()
            remove_tree(_disks())


def clear_after_killed_build() -> None:
    """Remove the remains of a killed build, unless a build is running."""
    if not _unfinished().exists():
        return
    try:
        with places.locked(".disks", wait=False):
            clear_unfinished()
    except LockHeldError as busy:
        print(f"note: a disk image is being built and is kept: {busy.problem}", flush=True)
