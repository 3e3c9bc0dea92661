"""Questions about systemd units: their state, and whether they have loaded the current files."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from lockstep.node.fingerprint.expected import LIMITS
from lockstep.node.fingerprint.not_applied import CPUS, LIMIT, STATE
from lockstep.node.readers.units import LOADED as LOADED
from lockstep.node.readers.units import MANAGER as MANAGER
from lockstep.question import Question, Taken, question

CLOCK_GRAIN_S = 0.02
"""Tolerance for comparing ctimes, in seconds: ctime advances in kernel ticks of up to 10 ms."""


@dataclass(frozen=True)
class ServiceState:
    """The state of a systemd unit."""

    active: str
    enabled: str
    needs_daemon_reload: bool
    stale: bool
    """Whether a file that the unit reads at startup has changed since the unit started."""
    reload_due: bool
    """Whether a file that the unit can reload has changed since the unit read it."""


@dataclass(frozen=True)
class NotApplied:
    """Settings of units that are configured, but do not apply to what is running."""

    cpus: dict[str, str]
    """Service -> the CPUs that its main process should have (cpuset(7), list format)."""
    limits: dict[str, dict[str, tuple[str, str]]]
    """Service -> resource, such as NOFILE -> soft and hard limit of its main process."""
    sockets: tuple[str, ...]
    """Sockets that are enabled but do not listen."""


@question("settings of services", "services.not_applied")
def not_applied(taken: Taken) -> NotApplied:
    """Ask which settings of services and sockets await their next start."""
    resources = {f"{LIMIT}{line}": name for name, line in LIMITS.items()}
    cpus, limits, sockets = {}, {}, []
    for unit, settings in taken["services.not_applied"].items():
        if CPUS in settings:
            cpus[unit] = settings[CPUS]
        if STATE in settings:
            sockets.append(unit)
        own = {
            resources[name]: tuple(v.split()) for name, v in settings.items() if name in resources
        }
        if own:
            limits[unit] = {name: (soft, hard) for name, (soft, hard) in own.items()}
    return NotApplied(cpus, limits, tuple(sockets))


def service_state(
    unit: str, files: Iterable[str] = (), reload_files: Iterable[str] = ()
) -> Question[ServiceState]:
    """Ask for the state of a unit, and whether it has loaded its current files.

    An operation that (re)starts a unit also runs ``loaded_stamp``, which records the ctime and
    inode of each file that the unit read. If they are unchanged, the file is loaded, even if the
    clock was set in the meantime. If something else started the unit, files written after the
    start count as not loaded. The record is kept on the node, so if a deploy is killed between a
    write and a restart, the next deploy restarts the unit. ``unit`` may be ``MANAGER``, for systemd
    itself.
    """
    read, read_again = tuple(files), tuple(reload_files)
    about = {"changed": tuple(dict.fromkeys((*read, *read_again)))}

    def answer(taken: Taken) -> ServiceState:
        if unit == MANAGER:
            shown, started = {"active": "active", "enabled": "enabled"}, taken["systemd.started"]
        else:
            shown, started = taken.item("units", unit), taken.item("units.started", unit)

        def changed(paths: tuple[str, ...]) -> bool:
            found = ((path, taken.item("files.changed", path)) for path in paths)
            there = {path: when for path, when in found if isinstance(when, str)}
            if started["stamp"][:1] == [started["invocation"]]:
                noted = started["stamp"][1:]
                return not {f"{when} {path}" for path, when in there.items()} <= {*noted}
            written = max((float(when.split()[0]) for when in there.values()), default=0.0)
            return written > (started["at"] or 0.0) + CLOCK_GRAIN_S

        reload = bool(started.get("needs_daemon_reload"))
        return ServiceState(
            shown["active"], shown["enabled"], reload, changed(read), changed(read_again)
        )

    if unit == MANAGER:
        return Question(unit, ("systemd.started", "files.changed"), answer, about)
    readings = ("units", "units.started", "files.changed")
    return Question(unit, readings, answer, {**about, "units": (unit,)})


def loaded_stamp(unit: str, files: Iterable[str]) -> str:
    """Return a command that records which files a unit has read, for ``service_state``."""
    name = shlex.quote(unit)
    invocation = (
        "cat /proc/sys/kernel/random/boot_id"
        if unit == MANAGER
        else f"systemctl show {name} -p InvocationID --value"
    )
    return (
        f"mkdir -p {LOADED} && {{ {invocation}; {_listed(files)}; }} > {LOADED}/{name}.new "
        f"&& mv -f {LOADED}/{name}.new {LOADED}/{name}"
    )


def _listed(files: Iterable[str]) -> str:
    quoted = " ".join(shlex.quote(path) for path in files)
    return (
        f'set --; for f in {quoted}; do if [ -e "$f" ]; then set -- "$@" "$f"; fi; done; '
        """if [ $# -gt 0 ]; then stat -L -c '%.9Z %i %n' "$@"; fi"""
    )
