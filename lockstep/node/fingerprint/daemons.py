"""The processes that run as daemons: the main process of each service, and those started by hand.

They are found through the control groups that systemd makes, so that neither the thousands of
kernel threads nor the processes of jobs and containers are looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

from lockstep.node.fingerprint.unitfiles import Files, files_of, words
from lockstep.node.fingerprint.units import comes_and_goes
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Unread
from lockstep.node.readers.tree import below, bytes_of, exists, rooted, text_of

GROUPS = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
"""Where the control groups of systemd are: with version 1, version 1 and 2, version 2."""
WORK = re.compile(
    r"(.*slurmstepd|docker-.*|libpod-.*|crio-.*|cri-containerd-.*|buildkit.*)\.(scope|slice)"
    r"|kubepods.*|k8s\.io|docker|libpod_parent|job_.*|uid_.*"
)
"""Control groups of jobs and containers. containerd has those of pods in /k8s.io, its namespace for
Kubernetes, if the kubelet makes none for pods (cgroupsPerQOS)."""
SESSION = re.compile(r"session-\w+\.scope|init\.scope|app-.*\.scope|run-.*\.scope|tmux-.*\.scope")
INTERACTIVE = frozenset({
    *("login", "agetty", "tmux", "screen", "ssh-agent", "gpg-agent", "dbus-daemon", "dbus-launch"),
    *("sshd", "sshd-session", "systemd", "mosh-server", "dirmngr"),
    # Debian's alternatives have Slurm's programs under a second name.
    *("keyboxd", "slurmstepd", "slurmstepd-wlm"),
})  # fmt: skip
"""Programs that a login or a job has started."""
INTERPRETERS = re.compile(r"(ba|da|z|k|c|tc)?sh|(python|perl|ruby|node|java|php|lua)[\d.]*")
"""Programs whose script says more than they do."""
LAUNCHERS = frozenset(
    f"{name}.service" for name in ("ssh", "sshd", "cron", "crond", "atd", "rc-local", "slurmd")
)
"""Services whose sessions and jobs may leave daemons in their own control group."""
FIRST_USER = 1000
"""Processes of people are no configuration (login.defs(5), UID_MIN)."""


class Daemon(NamedTuple):
    """A process that runs as a daemon."""

    name: str
    """Unit, or executable of a process that no unit started."""
    unit: str
    """Unit, or an empty text."""
    group: str
    """Path of its control group."""
    process: str
    """/proc folder."""
    stat: list[str]
    """Fields of /proc/PID/stat from the third (state) on (proc_pid_stat(5))."""


def group_root() -> str:
    """Return the folder of systemd's control groups."""
    for folder in GROUPS:
        if exists(f"{folder}/system.slice"):
            return folder
    raise Unread("/sys/fs/cgroup has no control groups of systemd")


def groups(folder: str, path: str = "") -> Iterator[str]:
    """Yield the paths of all control groups below a folder, without those of jobs."""
    with suppress(OSError):
        with os.scandir(rooted(folder + path)) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        for name in names:
            if not WORK.fullmatch(name):
                yield f"{path}/{name}"
                yield from groups(folder, f"{path}/{name}")


def members(folder: str, group: str) -> list[str]:
    """Return the processes in a control group."""
    with suppress(Unread):
        return text_of(f"{folder}{group}/cgroup.procs").split()
    return []


def service_of(group: str) -> str:
    """Return the service that a control group belongs to; empty if none."""
    services = [part for part in group.split("/") if part.endswith(".service")]
    if not services:
        return ""
    user = re.search(r"/user-(\d+)\.slice/", group)
    if user and len(services) > 1:
        return f"{services[1]} of user {account(user.group(1))}"
    return "" if user else services[0]


@lru_cache(maxsize=1)
def daemons_of(commands: Commands) -> list[Daemon]:
    """Return all daemons, sorted by name."""
    _accounts.cache_clear()
    files, folder = files_of(commands), group_root()
    lingering = set(below("/var/lib/systemd/linger"))
    of_unit: dict[str, list[Daemon]] = {}
    by_hand: list[Daemon] = []
    left: list[Daemon] = []
    for group in groups(folder):
        unit = service_of(group)
        if " of user " in unit and unit.rpartition(" ")[2] not in lingering:
            continue
        leaf = group.rpartition("/")[2]
        session = SESSION.fullmatch(leaf) and "user@" not in group
        if not unit and not session and not leaf.endswith(".slice"):
            continue
        for number in members(folder, group):
            process = f"/proc/{number}"
            with suppress(Unread, IndexError):
                stat = text_of(f"{process}/stat").rpartition(")")[2].split()
                if unit:
                    of_unit.setdefault(unit, []).append(Daemon(unit, unit, group, process, stat))
                    if unit in LAUNCHERS and stat[1] == "1" and stat[0] != "Z":
                        left.append(Daemon("", "", group, process, stat))
                elif number != "1" and stat[1] == "1" and stat[0] != "Z":
                    by_hand.append(Daemon("", "", group, process, stat))
    found = [
        _main(unit, some, files)
        for unit, some in of_unit.items()
        if not comes_and_goes(unit, files)
    ]
    main = {one.process for one in found}
    by_hand += (one for one in left if one.process not in main)
    return sorted([*found, *_named(by_hand)])


def _main(unit: str, some: list[Daemon], files: Files) -> Daemon:
    """Return the main process: a child of PID 1 with the service's program, the oldest."""
    if len(some) == 1:
        return some[0]
    started = words(files.settings(unit), "Service.ExecStart")[:1]
    program = os.path.basename(started[0].lstrip("@-:+!|")) if started else ""

    def rank(one: Daemon) -> tuple[bool, bool, int]:
        other = len(children) > 1 and os.path.basename(executable(one.process)[0]) != program
        return one.stat[1] != "1", other, int(one.stat[19])

    children = [one for one in some if one.stat[1] == "1"]
    return min(some, key=rank)


def _named(by_hand: list[Daemon]) -> Iterator[Daemon]:
    """Yield the daemons of no unit with their executable as name; further ones are numbered."""
    called: dict[str, list[tuple[str, Daemon]]] = {}
    for one in by_hand:
        path, _ = executable(one.process)
        if not path or os.path.basename(path) in INTERACTIVE or _is_of_people(one.process):
            continue
        with suppress(Unread):
            words = bytes_of(f"{one.process}/cmdline").rstrip(b"\0").split(b"\0")
            interpreter = INTERPRETERS.fullmatch(os.path.basename(path))
            if interpreter and len(words) == 1:  # a shell of a login
                continue
            scripts = [word for word in words[1:] if not word.startswith(b"-")]
            if interpreter and scripts and words[1] != b"-c":
                path += " " + scripts[0].decode("utf-8", "replace")
            called.setdefault(path, []).append((command_line(one.process), one))
    for path, some in called.items():
        for number, (_, one) in enumerate(sorted(some, key=lambda pair: pair[0]), 1):
            yield one._replace(name=f"by hand: {path}" + (f" #{number}" if number > 1 else ""))


def _is_of_people(process: str) -> bool:
    try:
        uid = os.stat(rooted(process)).st_uid
    except OSError:
        return True
    return FIRST_USER <= uid < 65534


def executable(process: str) -> tuple[str, bool]:
    """Return the program of a process, and whether its file was deleted or replaced."""
    try:
        path = os.readlink(rooted(f"{process}/exe"))
    except OSError:
        return "", False
    deleted = path.endswith(" (deleted)")
    return path[: -len(" (deleted)")] if deleted else path, deleted


def command_line(process: str) -> str:
    """Return the command line; what a process writes into it while it runs is cut off."""
    line = bytes_of(f"{process}/cmdline").rstrip(b"\0").replace(b"\0", b" ")
    text = line.decode("utf-8", "replace").strip()
    # sshd(8) writes the number of connections that wait, systemd its own file descriptors.
    text = re.sub(r" \d+ of [\d-]+ startups$", "", text)
    return re.sub(r" --deserialize[= ]?\d+", "", text)


@lru_cache(maxsize=2)
def _accounts(path: str, root: str) -> dict[str, str]:
    rows = [line.split(":") for line in text_of(path, "").splitlines()]
    return {row[2]: row[0] for row in reversed(rows) if len(row) > 2}


def account(number: str, path: str = "/etc/passwd") -> str:
    """Return the name of a user or group; numbers of DynamicUser= are "dynamic"."""
    name = _accounts(path, rooted("")).get(number)
    # systemd.exec(5), DynamicUser=. Debian has static accounts in this range, such as slurm.
    return name or ("dynamic" if 61184 <= int(number) <= 65519 else number)
