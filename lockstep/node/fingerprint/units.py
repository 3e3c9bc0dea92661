"""Units of systemd: their states, and what starts them.

The states come from one ``systemctl list-units``, everything else from the unit files: asking
PID 1 for the properties of all units takes 0.4 s of CPU time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from lockstep.node.fingerprint.entry import Domain, Entry, Fields
from lockstep.node.fingerprint.exempt import WHOLE, Exempt
from lockstep.node.fingerprint.protected import shown
from lockstep.node.fingerprint.unitfiles import OF_CONTROL, Files, files_of, last, truth, words
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import below, text_of

STATES = {"activating": "active", "reloading": "active", "refreshing": "active",
          "deactivating": "active", "maintenance": "active"}  # fmt: skip
"""States on the way to another one."""
FAILING = "failing"
"""State of a service that ended and waits for its next start (systemd.service(5), RestartSec=)."""
OF_FILES = ("mount", "swap", "device", "scope", "slice", "automount")
"""Kinds that systemd makes itself from mounts, hardware, sessions and groups of units. They are
objects only if they failed, or if somebody made a file for them."""
RANDOM = re.compile(r"run-(?:[rpu]?[0-9a-f]+(?:-i?\d+)?)\.\w+")
"""Names that systemd-run(1) invents."""
OF_BOOT = ("Unit.ConditionNeedsUpdate", "Unit.ConditionFirstBoot", "Unit.ConditionPathIsMountPoint")
"""Conditions of services that run at the first boot, or at the first one after an update."""
MANAGER = (
    *("LogLevel", "LogTarget", "Environment", "ConfirmSpawn", "RuntimeWatchdogUSec"),
    *("RuntimeWatchdogPreUSec", "RebootWatchdogUSec", "ServiceWatchdogs", "DefaultStandardOutput"),
    *("DefaultStandardError", "DefaultTimerAccuracyUSec", "DefaultTimeoutStartUSec"),
    *("DefaultTimeoutStopUSec", "DefaultTimeoutAbortUSec", "DefaultRestartUSec"),
    *("DefaultStartLimitIntervalUSec", "DefaultStartLimitBurst", "DefaultCPUAccounting"),
    *("DefaultIOAccounting", "DefaultIPAccounting", "DefaultMemoryAccounting", "DefaultOOMPolicy"),
    *("DefaultTasksAccounting", "DefaultLimitCORE", "DefaultLimitCORESoft", "DefaultLimitNOFILE"),
    *("DefaultLimitNOFILESoft", "DefaultLimitMEMLOCK", "DefaultLimitMEMLOCKSoft"),
    *("DefaultLimitSTACK", "DefaultLimitSTACKSoft", "DefaultLimitAS", "DefaultLimitRTPRIO"),
    *("DefaultTasksMax", "DefaultOOMScoreAdjust", "TimerSlackNSec", "CtrlAltDelBurstAction"),
)
"""Properties of PID 1 that somebody sets (systemd-system.conf(5), systemctl(1))."""
EXCEPTIONS_OF_UNITS = (
    Exempt("unit", r"user(-runtime-dir)?@\d+\.service", WHOLE,
           "It exists while a user is logged in."),
    Exempt("unit", r"sshd?@[\d-].*\.service", WHOLE,
           "It is one connection; its name has a counter."),
    Exempt("unit", r"(systemd-fsck|lvm2-pvscan|systemd-cryptsetup)@.*", WHOLE,
           "The instance is named after a disk."),
    Exempt("unit", r"systemd-coredump@.*", WHOLE, "It is one crash; its name has a counter."),
    Exempt("unit", r"(systemd-hostnamed|systemd-localed|systemd-timedated)\.service", "active",
           "It starts when somebody asks, and ends after 30 s without work."),
    Exempt("unit", r"(packagekit|fwupd|udisks2|polkit|rtkit-daemon)\.service", "active",
           "dbus starts it when somebody asks."),
    Exempt("unit", r"(libvirtd|virt\w+d)\.service", "active", "It ends after 120 s without work."),
    Exempt("unit", r"netavark-dhcp-proxy\.service", "active",
           "It starts at boot, and ends after some time without work; its socket starts it again."),
)  # fmt: skip


class State(NamedTuple):
    """State of a unit, as ``systemctl list-units`` prints it."""

    load: str
    active: str
    sub: str


@lru_cache(maxsize=1)
def states(commands: Commands) -> dict[str, State]:
    """Return the state of each unit that systemd has loaded."""
    out = commands.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager")
    rows = [line.split(None, 4) for line in out.splitlines()]
    return {
        row[0]: State(
            row[1], FAILING if row[3] == "auto-restart" else STATES.get(row[2], row[2]), row[3]
        )
        for row in rows
        if len(row) >= 4
    }


@lru_cache(maxsize=1)
def manager(commands: Commands) -> dict[str, str]:
    """Return the properties of PID 1."""
    found = {}
    for line in commands.run("systemctl", "show", "--no-pager").splitlines():
        name, _, value = line.partition("=")
        found[name] = value
    return found


def read_units(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield each unit that runs, failed, is linked, or has files that no package brought."""
    files, loaded = files_of(commands), states(commands)
    running = (unit for unit, state in loaded.items() if state.active != "inactive")
    names = {*files.of_admin, *files.links, *running}
    templates = {name for name in names if "@." in name}
    failed_at_random = 0
    for unit in sorted({files.real(name) for name in names - templates}):
        state = loaded.get(unit, State("", "inactive", "dead"))
        if RANDOM.fullmatch(unit):
            failed_at_random += state.active == "failed"
            continue
        kind = unit.rpartition(".")[2]
        if kind in OF_FILES and state.active != "failed" and unit not in files.of_admin:
            continue
        if kind not in KINDS or (kind == "scope" and unit not in files.of_admin):
            continue
        fields = _fields(unit, state, files)
        if fields:
            yield Entry(unit, fields)
    if failed_at_random:
        yield Entry("run-*.service", {"active": "failed"})
    for unit in sorted(templates & files.of_admin):
        if unit.rpartition(".")[2] in KINDS:
            yield Entry(unit, {"enabled": enabled(unit, files)})
    yield from _lingering()
    yield Entry("systemd", _of_manager(manager(commands)))


KINDS = ("service", "socket", "target", "timer", "path", *OF_FILES)


def _fields(unit: str, state: State, files: Files) -> Fields:
    fields = {"enabled": enabled(unit, files)}
    if state.load not in ("", "loaded", "masked", "not-found"):
        fields["loaded"] = state.load  # such as bad-setting
    if files.fragment(unit).startswith("/run/systemd/transient/"):
        fields["transient"] = "yes"
    aliases = [alias for alias, real in files.aliases.items() if real == unit]
    if aliases:
        fields["aliases"] = " ".join(sorted(aliases))
    properties = sorted(
        line
        for path in files.drop_ins(unit)
        if path.startswith(OF_CONTROL)
        for line in text_of(path, "").splitlines()
        if "=" in line and not line.startswith("#")
    )
    if properties:
        fields["set-property"] = "\n".join(properties)
    if state.active in ("failed", FAILING) or not comes_and_goes(unit, files):
        fields["active"] = state.active
    elif unit not in files.of_admin and unit not in files.links:
        return {}  # it has nothing but its package's file
    return fields


STATIC = "static"


def enabled(unit: str, files: Files) -> str:
    """Return what systemctl(1) says to ``is-enabled``, with the units that want this one."""
    if files.masked(unit):
        return "masked"
    wanted = files.wanted_by(unit)
    if wanted:
        return "by " + " ".join(wanted)
    fragment = files.fragment(unit)
    if fragment.startswith(("/run/systemd/generator", "/run/systemd/transient")):
        return "generated"
    if not fragment:
        return "no file"
    settings = files.settings(unit)
    return "disabled" if any(name.startswith("Install.") for name in settings) else STATIC


def comes_and_goes(unit: str, files: Files) -> bool:
    """Return whether a unit's state depends on the moment.

    A oneshot service ends; a service that nothing wants, but a socket, timer, path or dbus
    starts, runs when there is work.
    """
    if not unit.endswith(".service"):
        return False
    settings = files.settings(unit)
    kind = last(settings, "Service.Type", "simple")
    if any(name in settings for name in OF_BOOT):
        return True
    if kind == "oneshot":
        return not truth(last(settings, "Service.RemainAfterExit"))
    if files.wanted_by(unit):
        return False
    if last(settings, "Service.BusName"):
        return True
    return starter(unit, files) is not None


def starter(unit: str, files: Files) -> str | None:
    """Return the socket, timer or path that starts a service."""
    stem = unit.rpartition(".")[0]
    template = stem.partition("@")[0] + "@" if "@" in stem else stem
    for kind in ("socket", "timer", "path"):
        for name in (f"{stem}.{kind}", f"{template}.{kind}", f"{template.rstrip('@')}.{kind}"):
            if name in files.fragments and not files.masked(name):
                return name
    for name, section in _starters(files):
        if unit in words(files.settings(name), section):
            return name
    return None


def _starters(files: Files) -> Iterator[tuple[str, str]]:
    """Yield the units that start a service of another name, of those that no package brought."""
    for name in sorted(files.of_admin | {n for n in files.links if not n.endswith(".service")}):
        if name.endswith((".timer", ".path")):
            yield name, ("Timer.Unit" if name.endswith(".timer") else "Path.Unit")
        elif name.endswith(".socket"):
            yield name, "Socket.Service"


def _of_manager(properties: dict[str, str]) -> Fields:
    fields = {name: properties[name] for name in MANAGER if name in properties}
    if "DefaultTasksMax" in fields:
        fields["DefaultTasksMax"] = tasks(fields["DefaultTasksMax"])
    if "Environment" in fields:
        variables = fields.pop("Environment")
        try:
            listed = shlex.split(variables)
        except ValueError:
            listed = variables.split()
        for variable in listed:
            name, _, value = variable.partition("=")
            fields[f"environment {name}"] = shown(name, value)
    return fields


def tasks(limit: str) -> str:
    """Return a limit of tasks as systemd's default has it: in percent of the kernel's.

    The kernel computes its limit from the size of the memory, which differs by a few pages.
    """
    if not limit.isdigit():
        return limit
    numbers = [text_of(f"/proc/sys/kernel/{name}", "0").strip() for name in
               ("threads-max", "pid_max")]  # fmt: skip
    most = min(int(number) for number in numbers)
    for percent in range(1, 101):
        if most and abs(most * percent // 100 - int(limit)) <= 1:
            return f"{percent} % of the kernel's limit"
    return limit


def _lingering() -> Iterator[Entry]:
    """Yield the users whose units run without a login (loginctl(1), "enable-linger").

    The units are files of their homes.
    """
    for user in below("/var/lib/systemd/linger"):
        yield Entry(f"user {user}", {"units run without login": "yes"})


UNITS = (Domain("unit", read_units, 8),)
