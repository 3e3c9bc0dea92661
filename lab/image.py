"""The bare Debian system of all nodes: built once with mmdebstrap, cached until it is outdated.

An image contains a minimal server as a hosting provider installs it (systemd, sshd, one user with
sudo), and nothing that a role sets up.
"""

import hashlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from lab import archive, places, proxy, state
from lab.commands import TOOL_PATH, run
from lab.errors import LabError, LockHeldError
from lab.package_versions import newest_versions
from lab.processes import ProcessRecord, kill, start_recorded
from lab.removal import remove_tree, unmount_below

# Increase this when a change below changes the result: it is part of the cache key.
RECIPE = "4"
PACKAGES = (
    "apt-utils",
    "ca-certificates",
    "dbus",
    "iproute2",
    "iputils-ping",
    "kmod",
    "less",
    "libpam-systemd",
    "netbase",
    "openssh-server",
    "procps",
    "python3",
    "sudo",
    "systemd-sysv",
    "tzdata",
    "util-linux",
)
USER = "ops"
HOST_NAME = "bare"
BUILD_TIMEOUT_S = 900
FINISH = f"""
useradd --create-home --shell /bin/bash {USER}
# '*' means no password; unlike '!', it does not lock the account.
usermod --password '*' {USER}
visudo -cqf /etc/sudoers.d/{USER}
apt-get clean
rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub
rm -f /var/cache/apt/pkgcache.bin /var/cache/apt/srcpkgcache.bin
"""
# Path in the image -> content and mode.
FILES = {
    "etc/hostname": (f"{HOST_NAME}\n", 0o644),
    "etc/hosts": (f"127.0.0.1 localhost\n::1 localhost ip6-localhost {HOST_NAME}\n", 0o644),
    "etc/resolv.conf": ("# the lab has no name server\n", 0o644),
    "etc/machine-id": ("", 0o444),
    f"etc/sudoers.d/{USER}": (f"{USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440),
    "etc/ssh/sshd_config.d/10-lab.conf": (
        "PasswordAuthentication no\nPermitRootLogin no\n",
        0o644,
    ),
}


@dataclass(frozen=True)
class Image:
    """A finished image: its folder contains ``root`` and ``packages.json``."""

    folder: Path

    @property
    def root(self) -> Path:
        """The root file system that all nodes share."""
        return self.folder / "root"

    @property
    def versions(self) -> Path:
        """JSON file: package name -> newest version in the archive."""
        return self.folder / "packages.json"


def _images() -> Path:
    return places.cache_folder() / "images"


def _existing(os_name: str) -> list[Image]:
    """Return the finished images of an operating system, newest first."""
    folders = [path for path in _images().glob(f"{os_name}-*") if (path / "packages.json").exists()]
    return [Image(path) for path in sorted(folders, key=_made_at, reverse=True)]


def _made_at(folder: Path) -> float:
    return (folder / "packages.json").stat().st_mtime


def ensure(os_name: str) -> Image:
    """Return the image of an operating system; build it if the archive has changed.

    Raises:
        LabError: the build failed and there is no older image.
    """
    archive.suite_of(os_name)
    with places.locked(".image"):
        clear_unfinished()
        try:
            sources, releases = archive.find_sources(os_name, proxy.URI)
        except LabError as unreachable:
            older = _existing(os_name)
            if not older:
                raise
            print(
                f"note: using the older image {older[0].folder.name}, because the package archive "
                f"is not reachable: {unreachable.problem}",
                flush=True,
            )
            return older[0]
        options = archive.host_acquire_options()
        image = Image(_images() / f"{os_name}-{_digest(releases, options)}")
        if not image.versions.exists():
            _build(os_name, image, sources, options)
        _delete_outdated(os_name, image)
        return image


def _digest(releases: dict[str, bytes], options: list[str]) -> str:
    key = hashlib.sha256()
    for part in (RECIPE, FINISH, *PACKAGES, *options, repr(FILES)):
        key.update(part.encode() + b"\0")
    for where, content in sorted(releases.items()):
        key.update(where.encode() + b"\0" + content)
    return key.hexdigest()[:12]


def _delete_outdated(os_name: str, current: Image) -> None:
    in_use = {str(current.folder)}
    for lab in places.known_labs():
        used = state.read_to_remove(lab)
        if used is not None:
            in_use.add(used.image)
    for image in _existing(os_name):
        if str(image.folder) not in in_use:
            remove_tree(image.folder)


def _unfinished() -> Path:
    return _images() / ".unfinished"


def clear_unfinished() -> None:
    """Remove the process and the folder of a killed build. The caller must hold the lock."""
    record = _unfinished() / "process.json"
    if record.exists():
        kill(ProcessRecord.model_validate_json(record.read_text()), group=True)
    unmount_below(_unfinished())
    remove_tree(_unfinished())


def _build(os_name: str, image: Image, sources: list[archive.Source], options: list[str]) -> None:
    started = time.monotonic()
    print(f"building the image {image.folder.name} (about half a minute) ...", flush=True)
    unfinished = _unfinished()
    unfinished.mkdir(parents=True)
    draft = Image(unfinished)
    try:
        _bootstrap(os_name, draft, sources, options)
        _finish(draft.root, options)
        versions = newest_versions(draft.root / "var/lib/apt/lists")
        draft.versions.write_text(json.dumps(versions, indent=0, sort_keys=True) + "\n")
        for name in ("process.json", "build.log", "lab.sources"):
            (unfinished / name).unlink(missing_ok=True)
        os.replace(unfinished, image.folder)
    except BaseException:
        clear_unfinished()
        raise
    print(
        f"image {image.folder.name}: built in {time.monotonic() - started:.0f} s, "
        f"{len(versions)} packages in its archive",
        flush=True,
    )


def _bootstrap(
    os_name: str, draft: Image, sources: list[archive.Source], options: list[str]
) -> None:
    """Run mmdebstrap; record its process, so that it can be killed if this program dies."""
    log = draft.folder / "build.log"
    argv = [
        # Its mounts below the new root disappear with it, however it ends.
        *("unshare", "--mount"),
        *("mmdebstrap", "--mode=root", "--format=directory", "--variant=minbase"),
        f"--include={','.join(PACKAGES)}",
        f"--components={archive.COMPONENTS.replace(' ', ',')}",
        f'--aptopt=Acquire::http::Proxy "{proxy.URI}";',
        *(f"--aptopt={option}" for option in options),
        # Test machines need no manual pages, a tenth of the data that roles install.
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--skip=cleanup/apt/lists",
        archive.suite_of(os_name),
        str(draft.root),
    ]
    if sources:
        listed = draft.folder / "lab.sources"
        listed.write_text("\n".join(source.stanza() for source in sources))
        argv.append(str(listed))
    process = start_recorded(
        argv,
        lambda record: _save_record(draft, record),
        log=log,
        environment={"TMPDIR": str(draft.folder)},
    )
    try:
        status = process.wait(BUILD_TIMEOUT_S)
    except BaseException:
        # Its children are in its process group.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if status != 0:
        tail = "\n    ".join(log.read_text(errors="replace").splitlines()[-15:])
        raise LabError(
            f"building the {os_name} image: mmdebstrap failed, exit status {status}:\n    {tail}"
        )


def _save_record(draft: Image, record: ProcessRecord) -> None:
    (draft.folder / "process.json").write_text(record.model_dump_json() + "\n")


def _finish(root: Path, options: list[str]) -> None:
    """Add the lab's user and files to the bare system."""
    for relative, (content, mode) in FILES.items():
        path = root / relative
        path.unlink(missing_ok=True)  # it may be a symbolic link to a path on this host
        path.write_text(content)
        path.chmod(mode)
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    configuration = [f'Acquire::http::Proxy "{proxy.URI}";', *options]
    (root / "etc/apt/apt.conf.d/00lab-proxy").write_text("\n".join(configuration) + "\n")
    for path in (root / "etc/apt/sources.list.d").glob("0000*.sources"):
        path.rename(path.with_name("debian.sources"))
        (root / "etc/apt/sources.list").unlink(missing_ok=True)
    # The D-Bus copy must follow /etc/machine-id, which is different on every node.
    bus_id = root / "var/lib/dbus/machine-id"
    bus_id.unlink(missing_ok=True)
    bus_id.symlink_to("/etc/machine-id")
    root.chmod(0o755)
    run(
        ["chroot", str(root), "/bin/sh", "-euc", FINISH],
        what="finishing the image",
        environment={"PATH": TOOL_PATH, "LC_ALL": "C.UTF-8"},
    )


def delete_all() -> None:
    """Remove all images."""
    if _images().is_dir():
        with places.locked(".image"):
            clear_unfinished()
            remove_tree(_images())


def clear_after_killed_build() -> None:
    """Remove the remains of a killed build, unless a build is running."""
    if not _unfinished().exists():
        return
    try:
        with places.locked(".image", wait=False):
            clear_unfinished()
    except LockHeldError as busy:
        print(f"note: an image is being built and is kept: {busy.problem}", flush=True)
