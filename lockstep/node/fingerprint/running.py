"""What runs against what is configured: an object exists only where the two disagree.

One node alone suffices for these findings, and the configured value is the right one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress

from lockstep.node.fingerprint.conditions import conditions
from lockstep.node.fingerprint.daemons import Daemon, daemons_of, executable
from lockstep.node.fingerprint.entry import Domain, Entry
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.expected import differences
from lockstep.node.fingerprint.unitfiles import (
    OF_CONTROL,
    Files,
    files_of,
    last,
    settings_of,
    words,
)
from lockstep.node.fingerprint.units import (
    FAILING,
    RANDOM,
    comes_and_goes,
    enabled,
    manager,
    starter,
    states,
)
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.tree import (
    below,
    bytes_of,
    exists,
    found_by,
    line_of,
    rooted,
    text_of,
)

LOADED = ("/run/systemd/systemd-units-load", "/run/systemd/generator")
"""systemd touches the file whenever it has loaded all units (manager.c, manager_ready). Older
versions only make the folder anew."""
PULLS = (
    "Wants",
    "Requires",
    "Requisite",
    "BindsTo",
    "Upholds",
    "OnFailure",
    "OnSuccess",
    "Sockets",
)
PROGRAMS = re.compile(rb" (/(?:usr|opt|lib|lib64|bin|sbin)/\S*) \(deleted\)$", re.MULTILINE)
CONFIGURATIONS = {
    "munge.service": ("/etc/munge/munge.key",),
    "chrony.service": ("/etc/chrony/chrony.conf", "/etc/chrony/conf.d/*.conf"),
    "chronyd.service": ("/etc/chrony.conf",),
    "containerd.service": ("/etc/containerd/config.toml",),
    "rsyslog.service": ("/etc/rsyslog.conf", "/etc/rsyslog.d/*.conf"),
    "sssd.service": ("/etc/sssd/sssd.conf", "/etc/sssd/conf.d/*.conf"),
    "nvidia-dcgm-exporter.service": ("/etc/dcgm-exporter/*.csv",),
}
"""Daemons that read their configuration only when they start (munged(8), chronyd(8), ...)."""
TICK_S = 0.1
"""Error of a start time, which counts ticks of 10 ms."""
NOT_AT_START = (*OF_CONTROL, "/run/systemd/generator", "/run/systemd/transient")
"""What systemd writes anew at each daemon-reload, or applies at once."""
EXCEPTIONS_OF_RUNNING = (
    Exempt("running", r"(irqbalance|thermald|dmesg|ubuntu-advantage)\.service: state", WHOLE,
           "It ends when it has nothing to do."),
    Exempt("running",
           r"(sshd?@[\d-].*|systemd-coredump@.*|user(-runtime-dir)?@\d+)\.service: state", WHOLE,
           "It is one connection, crash or login."),
    Exempt("running", r"slurmd\.service: CPUs", WHOLE,
           "slurmd(8) moves itself to the specialized CPUs (slurm.conf(5), CpuSpecList)."),
    Exempt("running", r"slurmd\.service: limit core file size", WHOLE,
           "slurmd(8) raises it itself, so that steps can dump core."),
    Exempt("running", r"(sshd?|systemd-udevd)\.service: OOM score adjustment", WHOLE,
           "The daemon sets -1000 itself (sshd, oom_adjust_setup; systemd-udevd(8))."),
    Exempt("running", r"systemd-udevd\.service: limit open files", WHOLE,
           "The daemon raises it to fs.nr_open itself (systemd, rlimit_nofile_bump)."),
    Exempt("running", r"auditd\.service: nice", WHOLE,
           "The daemon sets it itself (auditd.conf(5), priority_boost)."),
    Exempt("running", r"(multipathd|corosync)\.service: (policy|nice)", WHOLE,
           "The daemon takes a real-time priority itself (corosync.conf(5), sched_rr)."),
    Exempt("running", r"slurm(ctld|dbd)\.service: limit (core file|stack|data) size", WHOLE,
           "The daemon raises its soft limits itself."),
    Exempt("running", r"(mariadb|mysql|mysqld)\.service: umask", WHOLE,
           "mariadbd(8) sets it itself (variable UMASK)."),
    Exempt("running", r"ntp(d|sec)?\.service: limit (locked memory|stack size)", WHOLE,
           "The daemon sets it itself (ntp.conf(5), rlimit)."),
    Exempt("running", r"kubelet\.service: limit open files", WHOLE,
           "The kubelet sets it itself (KubeletConfiguration, maxOpenFiles)."),
    Exempt("running", r"kubelet\.service: OOM score adjustment", WHOLE,
           "The kubelet sets it itself (KubeletConfiguration, oomScoreAdj)."),
    Exempt("running", r"munge\.service: limit core file size", WHOLE,
           "munged(8) forbids its own core dumps, which would contain the key."),
)  # fmt: skip


def read_running(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield what runs otherwise than its configuration says."""
    files = files_of(commands)
    yield from read_attributes(commands)
    yield from _replaced("systemd", "/proc/1")
    for daemon in _daemons(commands):
        yield from _replaced(daemon.unit, daemon.process)
        yield from _changed(daemon, files)
    yield from read_states(commands)
    yield from _reloads(files, commands)
    yield from _manager(manager(commands))
    yield from _names()


def differ(subject: str, attribute: str, running: str, configured: str) -> Entry:
    """Return the object of a disagreement."""
    return Entry(f"{subject}: {attribute}", {"running": running, "configured": configured})


def _daemons(commands: Commands) -> list[Daemon]:
    return [one for one in daemons_of(commands) if one.unit and " of user " not in one.unit]


def read_attributes(commands: Commands) -> Iterator[Entry]:
    """Yield the attributes in which the main process of a service differs from its unit."""
    files, properties = files_of(commands), manager(commands)
    # systemd-system.conf(5): CPUAffinity= is PID 1's own, and the default of all services.
    defaults = settings_of(_manager_files())
    cpus = words(defaults, "Manager.CPUAffinity")
    found = differences(_daemons(commands), files, properties, cpus)
    for daemon, attribute, running, configured in found:
        yield differ(daemon.unit, attribute, running, configured)


def _replaced(unit: str, process: str) -> Iterator[Entry]:
    """Yield a daemon whose program or library was replaced since it started."""
    path, deleted = executable(process)
    gone = {path} if deleted else set()
    with suppress(Unread):
        maps = bytes_of(f"{process}/maps")
        if b" (deleted)" in maps:
            gone |= {found.decode("utf-8", "replace") for found in PROGRAMS.findall(maps)}
    if gone:
        yield differ(unit, "program", "deleted: " + " ".join(sorted(gone)), "as on disk")


def _changed(daemon: Daemon, files: Files) -> Iterator[Entry]:
    """Yield a daemon that started before its unit's files in /etc and /run were changed."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    started = booted + int(daemon.stat[19]) / os.sysconf("SC_CLK_TCK")
    if files.masked(daemon.unit):
        return
    newer = []
    for path in (*files.sources(daemon.unit), *_read_at_start(daemon.unit, files)):
        if path.startswith(("/etc/", "/run/systemd/")) and not path.startswith(NOT_AT_START):
            with suppress(OSError):
                # As systemd does: an edit that was undone with its time is none.
                if os.stat(rooted(path)).st_mtime > started + TICK_S:
                    newer.append(path)
    if newer:
        yield differ(daemon.unit, "start", "before the last change of its files", " ".join(newer))


def _read_at_start(unit: str, files: Files) -> Iterator[str]:
    """Yield the files that a daemon reads only when it starts."""
    for path in files.settings(unit).get("Service.EnvironmentFile", ()):
        yield path.lstrip("-")
    if unit.startswith("systemd-") and unit.endswith("d.service"):
        # Such as journald.conf(5); reload is newer than most distributions.
        name = unit[len("systemd-") : -len(".service")]
        for folder in ("/etc/systemd", "/run/systemd"):
            yield f"{folder}/{name}.conf"
            yield from found_by(f"{folder}/{name}.conf.d/*.conf")
    for pattern in CONFIGURATIONS.get(unit, ()):
        yield from found_by(pattern)


def read_states(commands: Commands) -> Iterator[Entry]:
    """Yield units that are enabled but do not run, and the reverse."""
    files = files_of(commands)
    loaded, virtual = states(commands), manager(commands).get("Virtualization", "")
    active = {unit for unit, state in loaded.items() if state.active == "active"}
    pulled = _pulled(active, files)
    failed = (unit for unit, state in loaded.items() if state.active in ("failed", FAILING))
    for unit in sorted({files.real(name) for name in (*files.links, *active, *failed)}):
        kind = unit.rpartition(".")[2]
        if RANDOM.fullmatch(unit) or "@." in unit:
            continue
        if kind not in ("service", "socket", "timer", "path"):
            continue
        state = loaded[unit].active if unit in loaded else "inactive"
        said = enabled(unit, files)
        if state in ("failed", FAILING):
            yield differ(unit, "state", state, said)
        elif state == "active" and said == "masked":
            yield differ(unit, "state", "active", "masked")
        elif state == "active" and said == "disabled":
            started = (unit in pulled or last(files.settings(unit), "Service.BusName")
                       or starter(unit, files))  # fmt: skip
            if not started:
                yield differ(unit, "state", "active", "disabled")
        elif state == "inactive" and said.startswith("by ") and unit in files.fragments:
            by = {files.real(folder.rpartition(".")[0]) for folder in files.wanted_by(unit)}
            waits = comes_and_goes(unit, files) or _one_of(unit, files)
            if by & active and not waits and conditions(files.settings(unit), virtual):
                yield differ(unit, "state", "inactive", said)


def _one_of(unit: str, files: Files) -> bool:
    """Return whether a unit is a oneshot service, or its socket or timer waits for it."""
    if unit.endswith(".service"):
        return last(files.settings(unit), "Service.Type") == "oneshot" or bool(starter(unit, files))
    return False


def _pulled(active: set[str], files: Files) -> set[str]:
    """Return the units that the files of active units pull in."""
    found: set[str] = set()
    for unit in active:
        if unit.endswith((".service", ".target", ".socket", ".timer", ".path")):
            settings = files.settings(unit)
            for name in PULLS:
                found.update(words(settings, f"Unit.{name}"))
            for name in ("Service.Sockets", "Timer.Unit", "Path.Unit", "Socket.Service"):
                found.update(words(settings, name))
    return {files.real(unit) for unit in found}


def _reloads(files: Files, commands: Commands) -> Iterator[Entry]:
    """Yield the units whose files changed after systemd loaded them.

    Only if a file is younger than the last loading of all units, systemd is asked.
    """
    since = max((os.stat(rooted(path)).st_mtime for path in LOADED if exists(path)), default=0.0)
    if not since:
        return
    for path in (*_manager_files(), "/etc/fstab", "/etc/crypttab"):
        # systemd reads them, or runs its generators, at each daemon-reload.
        if exists(path) and os.stat(rooted(path)).st_mtime > since:
            yield differ("systemd", path, "as of the last daemon-reload", "changed since")
    loaded = states(commands)
    suspects = set()
    for unit, state in loaded.items():
        if state.load == "not-found":
            continue
        paths = files.sources(unit)
        folders = [
            path for name in files.names(unit) for path in files.folders.get(f"{name}.d", ())
        ]
        if any(_younger(path, since) for path in (*paths, *folders)):
            suspects.add(unit)
    folders = [path for path in ("/etc/systemd/system", "/run/systemd/system") if exists(path)]
    if any(_younger(path, since) for path in folders):
        # A file or folder came or went, perhaps of a unit that now has none.
        kinds = (".service", ".socket", ".timer")
        suspects |= {u for u, s in loaded.items() if s.active == "active" and u.endswith(kinds)}
    if not suspects:
        return
    wanted = sorted(suspects)
    out = commands.run("systemctl", "show", "--no-pager", "-p", "NeedDaemonReload", "--", *wanted)
    for number, block in enumerate(out.split("\n\n")):
        if "NeedDaemonReload=yes" in block:
            yield differ(
                wanted[number], "unit files", "as of the last daemon-reload", "changed since"
            )


def _younger(path: str, since: float) -> bool:
    if path.startswith(("/run/systemd/generator", "/run/systemd/transient")):
        return False
    try:
        return os.lstat(rooted(path)).st_ctime > since
    except OSError:
        return True


def _manager_files() -> list[str]:
    """Return the files of systemd-system.conf(5) in the order in which they apply."""
    chosen: dict[str, str] = {}
    for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib"):
        for name in below(f"{folder}/systemd/system.conf.d"):
            if name.endswith(".conf"):
                chosen.setdefault(name, f"{folder}/systemd/system.conf.d/{name}")
    main = [f"{folder}/systemd/system.conf" for folder in ("/etc", "/run", "/usr/lib")]
    return [next((path for path in main if exists(path)), main[0]),
            *(chosen[name] for name in sorted(chosen))]  # fmt: skip


OF_MANAGER = {"LogLevel": "info", "LogTarget": "", "ShowStatus": "", "DefaultTasksMax": "",
              "DefaultLimitNOFILE": "", "DefaultLimitMEMLOCK": "", "DefaultOOMScoreAdjust": "",
              "ServiceWatchdogs": "yes", "CtrlAltDelBurstAction": ""}  # fmt: skip
"""Properties of PID 1 -> the default, or an empty text if only a configured one is compared."""


def _manager(properties: dict[str, str]) -> Iterator[Entry]:
    configured = settings_of(_manager_files())
    line = line_of("/proc/cmdline", "")
    for name, default in OF_MANAGER.items():
        value = last(configured, f"Manager.{name}", default)
        option = re.sub("(?<!^)(?=[A-Z])", "_", name).lower()
        word = re.search(rf"systemd\.{option}=(\S+)", line)
        if word:
            value = word.group(1)
        running = properties.get(name, value)
        plain = value.split(":")[-1]
        if value and "%" not in value and not re.search(r"\d[KMGT]$", value) and running != plain:
            yield differ("systemd", name, running, value)


def _names() -> Iterator[Entry]:
    """Yield the host's name and time zone if they are not those of the files."""
    # hostname(5): lines that begin with "#" are comments.
    lines = [line.strip() for line in text_of("/etc/hostname", "").splitlines()]
    name = next((line for line in lines if line and not line.startswith("#")), "")
    running = line_of("/proc/sys/kernel/hostname", "")
    if name and running and name != running:
        yield differ("host name", "name", running, name)
    zone = line_of("/etc/timezone", "")  # Debian's own file, tzdata writes both
    if zone:
        link = os.path.realpath(rooted("/etc/localtime")).rpartition("/zoneinfo/")[2]
        if link and _canonical(link) != _canonical(zone):
            yield differ("time zone", "zone", link, zone)
    if exists("/run/nologin") and not exists("/etc/nologin"):
        yield differ("logins", "state", "refused by /run/nologin", "allowed")


def _canonical(zone: str) -> str:
    path = os.path.realpath(rooted(f"/usr/share/zoneinfo/{zone}"))
    return path.rpartition("/zoneinfo/")[2]


RUNNING = (Domain("running", read_running),)
