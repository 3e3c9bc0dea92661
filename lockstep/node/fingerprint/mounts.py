"""Mounts and swap areas, and those that differ from fstab(5) and from mount units."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from lockstep.node.fingerprint.disks import Disks, mount_rows, plain
from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.sysctl import memory_kb
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import ABSENT, Request
from lockstep.node.readers.tree import exists, found_by, resolved, rows_of, text_of

EXCEPTIONS_OF_MOUNT = (
    Exempt(
        "mount",
        r"/var/lib/(?:docker/(?:overlay2|containers|fuse-overlayfs)|containers/storage"
        r"/(?:overlay|overlay-containers)|kubelet/(?:pods|plugins)|enroot|apptainer|lxcfs"
        r"|containerd/tmpmounts)/.*"
        r"|/run/(?:containerd|docker|containers|pyxis|k3s|crio)/.*",
        WHOLE,
        "A container engine mounts it for one container.",
    ),
    Exempt(
        "mount",
        r"/run/netns(?: #\d+)?",
        WHOLE,
        "Podman and ip-netns(8) bind it to itself when they make their first namespace.",
    ),
    Exempt(
        "mount",
        r"/run/(?:user/\d+(?:/.*)?|credentials/.*|systemd/(?:unit-root|namespace-|mount-rootfs).*)",
        WHOLE,
        "systemd mounts it for a login or for a process of a unit (credentials: systemd.exec(5)).",
    ),
    Exempt(
        "mount",
        r".*/slurmd?/.*job_?\d+.*|/(?:tmp|var/tmp|run)/(?:slurm|job)[^/]*/\d+(?:/.*)?",
        WHOLE,
        "Slurm mounts it for one job (job_container.conf(5)).",
    ),
    Exempt(
        "mount",
        r"/sys/kernel/debug/tracing|/proc/sys/fs/binfmt_misc #\d+|/snap/.*",
        WHOLE,
        "The kernel or systemd mounts it when it is used; a snap's revision is a package.",
    ),
)
UNSTABLE_OPTIONS = re.compile(
    r"(?:addr|clientaddr|mountaddr|mountport|fd|pgrp|timeout|pipe_ino|lowerdir|upperdir|workdir"
    r"|resuid|resgid|uuid|seclabel)(?:=.*)?"
)
"""Options that name an address, a process, or a layer's generated folder."""


def read_mounts(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each mount point; a point that is mounted several times has several."""
    disks, memory = Disks(), memory_kb()
    seen: dict[str, int] = {}
    automatic: list[str] = []
    for before, after in mount_rows():
        place, kind = plain(before[4]), after[0]
        if kind == "autofs":
            automatic.append(place)
        elif any(place == top or place.startswith(f"{top}/") for top in automatic):
            continue  # autofs(8) mounts it when somebody uses it
        if kind == "nsfs":
            continue  # the domain netns has those with a name
        seen[place] = seen.get(place, 0) + 1
        name = place if seen[place] == 1 else f"{place} #{seen[place]}"
        yield Entry(name, _fields(before, after, disks, memory))


def _fields(before: list[str], after: list[str], disks: Disks, memory: int) -> Fields:
    kind = after[0]
    options = [one for one in before[5].split(",") if one != "rw"]
    of_super = [
        sized(one, kind, memory)
        for one in (after[2] if len(after) > 2 else "").split(",")
        if not UNSTABLE_OPTIONS.fullmatch(one) and one != "rw"
    ]
    propagation = sorted(one.partition(":")[0] for one in before[6:])
    return {
        "type": kind,
        "source": disks.role(plain(after[1])) if len(after) > 1 else "",
        "options": ",".join(sorted(filter(None, options))),
        "super_options": ",".join(sorted(filter(None, of_super))),
        "propagation": ", ".join(propagation) or "private",
        **({"folder": plain(before[3])} if before[3] != "/" else {}),
    }


def sized(option: str, kind: str, memory: int) -> str:
    """Return an option of tmpfs(5); a size that was set in percent is shown in percent.

    The kernel computes it from the memory size (shmem_parse_one()), and equal machines have sizes
    that differ by a few pages.
    """
    name, _, value = option.partition("=")
    match = re.fullmatch(r"(\d+)k", value)
    if name == "nr_inodes" and kind == "devtmpfs" and memory and value.isdigit():
        pages = int(value) * 8 / memory
        return "nr_inodes=half of the pages" if abs(pages - 1) < 0.02 else option
    if name != "size" or not match or not memory:
        return option
    percent = int(match.group(1)) * 100 / memory
    near = 1 if kind == "devtmpfs" else 0.01  # devtmpfs is mounted before the kernel knows all
    if round(percent) >= 1 and abs(percent - round(percent)) * 100 <= near * round(percent):
        return f"size={round(percent)}% of memory"
    return option


def read_swaps(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each swap area."""
    disks = Disks()
    for words in rows_of("/proc/swaps", after=1):
        name = disks.role(plain(words[0]))
        automatic = "set by the kernel" if words[4].startswith("-") else words[4]
        # The priority of areas without one depends on their order only (swapon(8)).
        yield Entry(name, {"type": words[1], "size_kb": words[2], "priority": automatic})


UNITS = ("/etc/systemd/system", "/usr/lib/systemd/system")
FLAGS = ("ro", "nosuid", "nodev", "noexec", "sync", "dirsync", "nodiratime", "nosymfollow")
READ_ONLY = ("iso9660", "squashfs", "erofs")
NEGOTIATED = ("vers", "nfsvers", "rsize", "wsize", "addr", "clientaddr")
"""Options on which client and server agree (nfs(5))."""
TIMES = ("noatime", "relatime", "strictatime")
UNSEEN = re.compile(r"(?:x-|comment=|_netdev|nofail|noauto|auto|defaults|user|owner|group).*")


def _fstab() -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield the source, place, type and options of each line of fstab."""
    for line in text_of("/etc/fstab", "").splitlines():
        words = line.split()
        if len(words) >= 3 and not line.lstrip().startswith("#"):
            options = words[3].split(",") if len(words) > 3 else []
            yield plain(words[0]), plain(words[1]), words[2], options


def _units(ending: str) -> Iterator[tuple[str, dict[str, str], bool]]:
    """Yield each mount or swap unit, its settings, and whether it is enabled.

    A file in /etc replaces one in /usr, a link to /dev/null masks it, and drop-ins are read after
    it (systemd.unit(5)). Generators make units of swap areas that fstab does not have.
    """
    seen: set[str] = set()
    generated = ("/run/systemd/generator", "/run/systemd/generator.late")
    for folder in (*UNITS, *(generated if ending == "swap" else ())):
        for path in found_by(f"{folder}/*.{ending}"):
            name = os.path.basename(path)
            if name in seen:
                continue
            seen.add(name)
            settings = {}
            drop_ins = [one for top in UNITS[::-1] for one in found_by(f"{top}/{name}.d/*.conf")]
            for file in (path, *drop_ins):
                for line in text_of(file, "").splitlines():
                    key, assigned, value = line.partition("=")
                    if assigned:
                        settings[key.strip()] = value.strip().replace("%%", "%")
            wanted = found_by(f"/etc/systemd/system/*.[rw]*s/{name}")
            yield path, settings, bool(wanted)


def read_running_mounts(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each mount or swap area that is not as fstab or its unit says."""
    running = {}
    for before, after in mount_rows():  # of several on one place, the last is seen
        if after[0] != "autofs" or plain(before[4]) not in running:
            running[plain(before[4])] = (before, after)
    swaps = {_device(plain(words[0])) for words in rows_of("/proc/swaps", after=1)}
    disks = Disks()
    swapped: set[str] = set()
    for source, place, kind, options in _fstab():
        if kind == "swap":
            swapped.add(_device(source))
            if "noauto" not in options and _device(source) not in swaps:
                yield _differs(f"swap {disks.role(_device(source))}", "off", "on", "/etc/fstab")
        elif place.startswith("/"):
            needed = "noauto" not in options
            yield from _compared(place, source, kind, options, needed, "/etc/fstab", running)
    listed = {place for _, place, _, _ in _fstab()}
    for path, settings, enabled in _units("mount"):
        place = settings.get("Where", "")
        if place and place not in listed and "%" not in place:
            options = settings.get("Options", "").split(",")
            source, kind = settings.get("What", ""), settings.get("Type", "auto")
            yield from _compared(place, source, kind, options, enabled, path, running)
    for path, settings, enabled in _units("swap"):
        device = _device(settings.get("What", ""))
        swapped.add(device)
        if enabled and device not in swaps:
            yield _differs(f"swap {disks.role(device)}", "off", "on", path)
    for device in sorted(swaps - swapped):
        if not re.fullmatch(r"/dev/zram\d+", device):  # zram-generator(8) has no unit file
            yield _differs(f"swap {disks.role(device)}", "on", ABSENT, "/etc/fstab")


def _differs(name: str, running: str, configured: str, file: str) -> Entry:
    return Entry(name, {"running": running, "configured": configured, "file": file})


def _device(source: str) -> str:
    """Return the device that a source such as UUID= stands for (mount(8))."""
    tag, assigned, value = source.partition("=")
    if assigned and tag in ("UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"):
        source = f"/dev/disk/by-{tag.lower()}/" + value.strip('"')
    return resolved(source) if source.startswith("/dev/") and exists(source) else source


def _compared(
    place: str,
    source: str,
    kind: str,
    options: list[str],
    needed: bool,
    file: str,
    running: dict[str, tuple[list[str], list[str]]],
) -> Iterator[Entry]:
    """Yield a mount if it is missing, or has another source, type or option than configured."""
    name = f"mount {place}"
    if place not in running:
        if needed:
            yield _differs(name, "not mounted", "mounted", file)
        return
    before, after = running[place]
    if after[0] == "autofs":
        return
    is_now, is_set = [], []

    def differ(now: str, wanted: str) -> None:
        is_now.append(now)
        is_set.append(wanted)

    bound = {"bind", "rbind"} & set(options)
    if not bound and kind not in ("auto", "none", after[0]) and "," not in kind:
        differ(f"type {after[0]}", f"type {kind}")
    if not bound and _is_another(source, plain(after[1]), after[0]):
        differ(f"source {_role(plain(after[1]))}", f"source {_role(_device(source))}")
    now = {*before[5].split(","), *(after[2].split(",") if len(after) > 2 else ())}
    # Options for users imply others (mount(8)), and some types are always read-only.
    implied = {"user", "users", "owner", "group"} & set(options) or after[0] in READ_ONLY
    for flag in FLAGS:
        opposite = flag[2:] if flag.startswith("no") else "rw" if flag == "ro" else f"no {flag}"
        if (flag in now) != (flag in options):
            # Options that a file system or systemd adds are not in the table: only "ro" counts.
            if flag in options:
                differ(opposite, flag)
            elif file == "/etc/fstab" and flag in ("ro", "noexec") and not implied:
                differ(flag, opposite)
    wanted_time = [one for one in TIMES if one in options]
    now_time = next((one for one in TIMES if one in now), "strictatime")
    if wanted_time and wanted_time[-1] != now_time:
        differ(now_time, wanted_time[-1])
    values = {one.partition("=")[0]: one for one in now if "=" in one}
    for option in options:
        key, assigned, value = option.partition("=")
        if not assigned or UNSEEN.fullmatch(option) or "%" in value or key not in values:
            continue
        if key in NEGOTIATED or (key in ("uid", "gid") and not value.isdigit()):
            continue
        if _bytes(values[key].partition("=")[2]) != _bytes(value):
            differ(values[key], option)
    if is_now:
        yield _differs(name, ", ".join(is_now), ", ".join(is_set), file)


def _is_another(configured: str, running: str, kind: str) -> bool:
    """Return whether a mount has another source than configured; false if nobody can tell."""
    if kind.startswith("nfs") or kind == "lustre":
        return configured.rstrip("/") != running.rstrip("/")
    found = _device(configured)
    # A link that udev has not made tells nothing, and the kernel calls what it mounted /dev/root.
    unknown = found.startswith("/dev/disk/") or running == "/dev/root"
    return found.startswith("/") and not unknown and found != _device(running)


def _role(device: str) -> str:
    return Disks().role(device)


def _bytes(value: str) -> str:
    """Return a size in bytes if a value is one: 4k -> 4096; modes lose their leading zeros."""
    match = re.fullmatch(r"(\d+)([kmgKMG])", value)
    if match:
        return str(int(match.group(1)) << {"k": 10, "m": 20, "g": 30}[match.group(2).lower()])
    return value.lstrip("0") or "0"


MOUNTS: tuple[Domain, ...] = (Domain("mount", read_mounts), Domain("swap", read_swaps))
