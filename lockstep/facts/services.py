"""What a unit does, and whether it runs on the files that are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lockstep.facts.reading import Question, Taken
from lockstep.node.readers.units import LOADED as LOADED
from lockstep.node.readers.units import MANAGER as MANAGER

CLOCK_GRAIN_S = 0.02
"""ctime advances with the kernel's tick and uptime has two digits: closer than this is equal."""


@dataclass(frozen=True)
class ServiceState:
    """A unit as systemd shows it."""

    active: str
    enabled: str
    needs_daemon_reload: bool
    stale: bool
    """A file it reads at its start is not the one it started with."""
    reload_due: bool
    """A file it can read again is not the one it has read."""


def service_state(
    unit: str, files: Iterable[str] = (), reload_files: Iterable[str] = ()
) -> Question[ServiceState]:
    """Ask for the state of a unit, and whether its files are what it has loaded.

    Whoever (re)starts a unit with ``loaded_stamp`` leaves what it read (ctime and inode of each
    file): equal means loaded, whatever the clock did since. For a unit that something else
    started, a file written after the start counts as not loaded. Either way the answer is on the
    node, so a deploy that was killed between a write and a restart is completed by the next one.
    ``unit`` may be ``MANAGER``: systemd itself.
    """
    read, read_again = tuple(files), tuple(reload_files)
    about = {"changed": tuple(dict.fromkeys((*read, *read_again)))}

    def of_systemd(taken: Taken) -> ServiceState:
        started = taken["systemd.started"]
        return _state("active", "enabled", started, taken)

    def of_unit(taken: Taken) -> ServiceState:
        shown = taken.item("units", unit)
        return _state(shown["active"], shown["enabled"], taken.item("units.started", unit), taken)

    def _state(active: str, enabled: str, started: Mapping[str, Any], taken: Taken) -> ServiceState:
        def changed(paths: tuple[str, ...]) -> bool:
            found = ((path, taken.item("files.changed", path)) for path in paths)
            there = {path: when for path, when in found if isinstance(when, str)}
            if started["stamp"][:1] == [started["invocation"]]:
                noted = started["stamp"][1:]
                return not {f"{when} {path}" for path, when in there.items()} <= {*noted}
            written = max((float(when.split()[0]) for when in there.values()), default=0.0)
            return written > (started["at"] or 0.0) + CLOCK_GRAIN_S

        reload = bool(started.get("needs_daemon_reload"))
        return ServiceState(active, enabled, reload, changed(read), changed(read_again))

    if unit == MANAGER:
        return Question(unit, ("systemd.started", "files.changed"), of_systemd, about)
    readings = ("units", "units.started", "files.changed")
    return Question(unit, readings, of_unit, {**about, "units": (unit,)})


def loaded_stamp(unit: str, files: Iterable[str]) -> str:
    """Return a command that leaves what a unit has read, for ``Service`` to compare with."""
    name = shlex.quote(unit)
    invocation = (
        "cat /proc/sys/kernel/random/boot_id"
        if unit == MANAGER
        else f"systemctl show {name} -p InvocationID --value"
    )
    return (
        f"mkdir -p {LOADED} && {{ {invocation}; {_listed('', files)}; }} > {LOADED}/{name}.new "
        f"&& mv -f {LOADED}/{name}.new {LOADED}/{name}"
    )


def _listed(label: str, files: Iterable[str]) -> str:
    quoted = " ".join(shlex.quote(path) for path in files)
    prefix = f"{label}=" if label else ""
    return (
        f'set --; for f in {quoted}; do if [ -e "$f" ]; then set -- "$@" "$f"; fi; done; '
        f"""if [ $# -gt 0 ]; then stat -L -c '{prefix}%.9Z %i %n' "$@"; fi"""
    )
