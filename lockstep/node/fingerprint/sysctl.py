"""Sysctls: all values below /proc/sys, and those that differ from the files in sysctl.d."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from lockstep.node.fingerprint.entry import Domain, Entry, Fields, Secret
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.interfaces import called, without_containers
from lockstep.node.fingerprint.sysfs import names_in, value_of
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.kernel import SYSCTL_FOLDERS, matches, sysctl_path
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import below, exists, found_by, rooted, text_of

TOP = "/proc/sys"
NOT_ENTERED = frozenset({"fs/binfmt_misc", "vm/stat_refresh", "kernel/random", "fs/quota"})
"""Reading binfmt_misc mounts it (systemd's automount), reading stat_refresh makes all CPUs sum up
their counters (Documentation/admin-guide/sysctl/vm.rst); random and quota hold only counters and
random numbers, except for write_wakeup_threshold and urandom_min_reseed_secs, which do nothing any
more (random(4))."""
PER_INTERFACE = re.compile(r"net/(?:ipv4|ipv6|mpls)/(?:conf|neigh)|net/mpls/conf")
"""Folders that have a folder for each interface. Its values are the fields of one object, so that
one more interface is not 130 objects more."""
SECRET = frozenset({"tcp_fastopen_key", "stable_secret"})

EXCEPTIONS_OF_SYSCTL = (
    Exempt(
        "sysctl",
        r"fs\.(?:aio-nr|dentry-state|file-nr|inode-nr|inode-state|nfs\.nfs_congestion_kb)"
        r"|kernel\.(?:ns_last_pid|pty\.nr|hung_task_detect_count|hung_task_warnings)"
        r"|net\.netfilter\.nf_conntrack_count|sunrpc\.transports"
        r"|lnet\.(?:stats|peers|buffers|lru|nis|routes|routers)|kernel\.spl\.kmem\..*",
        WHOLE,
        "The kernel counts here.",
    ),
    Exempt(
        "sysctl",
        r"net\.core\.netdev_rss_key|net\.ipv4\.tcp_fastopen_key|kernel\.cad_pid"
        r"|kernel\.(?:sem|msg|shm)_next_id",
        WHOLE,
        "The kernel draws the key at random, or the value is the number of a process or object.",
    ),
    Exempt(
        "sysctl",
        r"kernel\.(?:tainted|version|osrelease|ostype|arch)|vm\.nr_hugepages_mempolicy",
        WHOLE,
        "The domain kernel has it, or another sysctl has the same value.",
    ),
    Exempt(
        "sysctl",
        r"kernel\.perf_event_max_sample_rate",
        WHOLE,
        "The kernel lowers it if interrupts take long (admin-guide/sysctl/kernel.rst).",
    ),
    Exempt(
        "sysctl",
        r"net\.ipv[46]\.(?:conf|neigh)\..*",
        "stable_secret",
        "An identity of the node: IPv6 addresses are derived from it.",
    ),
)

SHARES = {
    # Share of MemTotal in kB: lowest and highest that kernels since 5.4 compute.
    "fs.file-max": (0.095, 0.101),
    "fs.epoll.max_user_watches": (0.19, 0.28),
    "fs.inotify.max_user_watches": (0.0065, 0.0125),
    "user.max_inotify_watches": (0.0065, 0.0125),
    "fs.fanotify.max_user_marks": (0.0065, 0.0125),
    "user.max_fanotify_marks": (0.0065, 0.0125),
    "kernel.threads-max": (0.95 / 128, 1.01 / 128),
    **{
        f"user.max_{kind}_namespaces": (0.95 / 256, 1.01 / 256)
        for kind in ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
    },
}
"""Values that the kernel computes from the memory size at boot: fork_init() and
files_maxfiles_init(), eventpoll_init(), inotify_user_setup(), fanotify_user_setup(). Equal
machines have sizes that differ by a few pages."""
TRIPLES = ("net.ipv4.tcp_mem", "net.ipv4.udp_mem", "net.sctp.sctp_mem")
IN_ANY_ORDER = re.compile(
    r"net\.ipv4\.tcp_(?:available_(?:congestion_control|ulp)|allowed_congestion_control)"
)
"""Lists in the order in which modules were loaded (ip-sysctl)."""
COMPUTED = "computed at boot from the memory size"


def read_sysctl(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each sysctl; those of one interface are fields of one object."""
    if not exists(TOP):
        raise Unread(f"{TOP}: no such folder")
    memory = memory_kb()
    yield from _folder("", memory)


def _folder(folder: str, memory: int) -> Iterator[Entry]:
    with os.scandir(rooted(f"{TOP}/{folder}")) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    names = [entry.name for entry in entries]
    if PER_INTERFACE.fullmatch(folder):
        renamed = called(names)
        for name in without_containers(names):
            key = key_of(f"{folder}/{name}")
            if name in renamed:
                key = key.replace(name, f"<{renamed[name]}>")
            yield Entry(key, _values(f"{folder}/{name}"))
        return
    for entry in entries:
        path = f"{folder}/{entry.name}".lstrip("/")
        if path in NOT_ENTERED:
            continue
        if entry.is_dir(follow_symlinks=False):
            with suppress(OSError):
                yield from _folder(path, memory)
            continue
        value = value_of(f"{TOP}/{path}")
        if value is not None:
            key = key_of(path)
            value = shown(key, value, memory)
            yield Entry(key, {"value": Secret(value) if entry.name in SECRET else value})


def _values(folder: str) -> Fields:
    """Return all values of an interface; a domain of the scheduler has folders below, too."""
    fields: Fields = {}
    for name in below(f"{TOP}/{folder}"):
        value = value_of(f"{TOP}/{folder}/{name}")
        if value is not None:
            fields[name] = value
    return fields


def key_of(path: str) -> str:
    """Return the name of a sysctl: dots for slashes and slashes for dots (sysctl(8))."""
    return path.translate(str.maketrans("/.", "./"))


def memory_kb() -> int:
    """Return MemTotal; 0 if it is unknown."""
    match = re.match(r"MemTotal:\s+(\d+)", text_of("/proc/meminfo", ""))
    return int(match.group(1)) if match else 0


def shown(key: str, value: str, memory: int) -> str:
    """Return a value, or that the kernel has computed it from the memory size of this node."""
    if IN_ANY_ORDER.fullmatch(key):
        return " ".join(sorted(value.split()))
    if key in SHARES and memory:
        low, high = SHARES[key]
        return COMPUTED if value.isdigit() and low <= int(value) / memory <= high else value
    if key in TRIPLES and memory:
        # tcp_init_mem() and udp_init(): limit is a 16th or 8th of the free buffer pages.
        least, limit, most = (int(word) for word in value.split())
        shaped = abs(limit * 3 - least * 4) <= 12 and most == 2 * least
        part = limit * 4 / memory
        fits = any(0.85 * share <= part <= 1.02 * share for share in (1 / 16, 1 / 8))
        return COMPUTED if shaped and fits else value
    if key == "vm.min_free_kbytes" and memory:
        # init_per_zone_wmark_min(): four times the root of the memory in kB.
        return COMPUTED if 0.97 <= int(value) / (16 * memory) ** 0.5 <= 1.01 else value
    return value


def configured() -> dict[str, tuple[str, str]]:
    """Return what sysctl.d(5) sets at boot: path below /proc/sys -> value, file.

    A file replaces those of the same name in later folders; the files are sorted by name; a later
    line wins, but a key without wildcard wins over patterns, and a key without value is left out
    of patterns.
    """
    files: dict[str, str] = {}
    for folder in SYSCTL_FOLDERS:
        for path in found_by(folder + "/*.conf"):
            files.setdefault(os.path.basename(path), path)
    plain: dict[str, tuple[str, str]] = {}
    patterns: dict[str, tuple[str, str]] = {}
    excluded: set[str] = set()
    for name in sorted(files):
        for line in text_of(files[name], "").splitlines():
            key, assigned, value = line.strip().partition("=")
            if not key or key[0] in "#;":
                continue
            key = sysctl_path(key.strip().lstrip("-").strip())
            if not assigned:
                excluded.add(key)
                continue
            table = patterns if set("*?[") & set(key) else plain
            table.pop(key, None)  # the last line wins, so it moves to the end
            table[key] = (" ".join(value.split()), files[name])
    found: dict[str, tuple[str, str]] = {}
    present = set(without_containers(names_in(f"{TOP}/net/ipv4/conf"))) if patterns else set()
    for pattern, setting in patterns.items():
        for path in found_by(f"{TOP}/{pattern}"):
            key = path[len(TOP) + 1 :]
            parts = key.split("/")
            of_container = PER_INTERFACE.match(key) and parts[3] not in present
            if key not in excluded and matches(key, pattern) and not of_container:
                found[key] = setting
    return {**found, **plain}


def read_running_sysctls(request: Request, commands: Commands) -> Iterator[Entry]:
    """One object for each sysctl whose value is not what sysctl.d sets at boot."""
    for path, (value, file) in sorted(configured().items()):
        running = value_of(f"{TOP}/{path}")
        differs = running is not None and _parsed(running) != _parsed(value)
        if running is not None and differs and not _is_read_only(f"{TOP}/{path}"):
            fields = {"running": running, "configured": value, "file": file}
            yield Entry(f"sysctl {key_of(path)}", fields)


def _is_read_only(path: str) -> bool:
    """Return whether a sysctl cannot be set here, because a container gets it from its host.

    systemd-nspawn(1) mounts /proc/sys read-only, apart from the sysctls of the network namespace;
    sysctl.d has no effect there. The domain sysctl compares the value.
    """
    try:
        return bool(os.statvfs(rooted(path)).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def _parsed(value: str) -> list[int | str]:
    """Return the words of a value; numbers may be written in several ways."""

    def parsed(word: str) -> int | str:
        try:
            return int(word, 0) if not re.fullmatch(r"0[0-7]+", word) else int(word, 8)
        except ValueError:
            return word

    return [parsed(word) for word in value.split()]


SYSCTL: tuple[Domain, ...] = (Domain("sysctl", read_sysctl, 16),)
