"""What a unit does, and whether it started after its files were last written."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

LOADED = "/run/lockstep/loaded"
"""Holds an empty file per unit, touched when the unit was told to read its files again."""

MANAGER = "systemd-manager"
"""Name under ``LOADED`` for systemd itself (daemon-reexec)."""

WRITTEN = ("Written", "ReloadWritten", "DropInWritten")
"""Keys of our own that may come several times: the newest counts."""

CLOCK_GRAIN_S = 0.02
"""ctime advances with the kernel's tick and uptime has two digits: closer than this is equal."""


@dataclass(frozen=True)
class ServiceState:
    """A unit as systemd shows it."""

    active: str
    enabled: str
    needs_daemon_reload: bool
    stale: bool
    """A file it reads at its start was written after it started."""
    reload_due: bool
    """A file it can read again was written after it started or was last reloaded."""


class Service(FactBase[ServiceState]):
    """Returns the state of a unit, and whether its files are newer than what it has loaded.

    The answer comes from the node's own clocks alone (ctime against the start of the unit), so a
    deploy that was killed between a write and a restart is completed by the next one.
    ``unit`` may be ``MANAGER``: systemd itself.
    """

    @override
    def command(
        self, unit: str, files: Iterable[str] = (), reload_files: Iterable[str] = ()
    ) -> str:
        properties = "ActiveState UnitFileState NeedDaemonReload ActiveEnterTimestampMonotonic"
        show = f"systemctl show {shlex.quote(unit)} -p {properties.replace(' ', ' -p ')}"
        if unit == MANAGER:
            # systemd started its own life when it entered user space.
            show = (
                "systemctl show -p UserspaceTimestampMonotonic "
                "| sed s/^Userspace/ActiveEnter/; echo ActiveState=active; "
                "echo UnitFileState=enabled; echo NeedDaemonReload=no"
            )
        drop_ins = [path for path in files if path.startswith("/etc/systemd/system/")]
        stamp = shlex.quote(f"{LOADED}/{unit}")
        return (
            f"{show}; systemctl show -p UnitsLoadTimestampMonotonic; "
            "echo Now=$(date +%s.%N); echo Uptime=$(cut -d' ' -f1 /proc/uptime); "
            f"if [ -e {stamp} ]; then echo Loaded=$(stat -c %.9Z {stamp}); "
            f"else echo Loaded=0; fi; {_written('Written', files)}; "
            f"{_written('DropInWritten', drop_ins)}; "
            f"{_written('ReloadWritten', reload_files)}"
        )

    @override
    def process(self, output: Iterable[str]) -> ServiceState:
        values: dict[str, str] = dict.fromkeys(WRITTEN, "0")
        for line in output:
            key, _, value = line.partition("=")
            if key in WRITTEN:
                values[key] = str(max(_seconds(values[key]), _seconds(value)))
            else:
                values[key] = value
        try:
            boot = _seconds(values["Now"]) - _seconds(values["Uptime"])
            started = boot + _seconds(values["ActiveEnterTimestampMonotonic"]) / 1e6
            units_loaded = values.get("UnitsLoadTimestampMonotonic", "")
            loaded = max(started, _seconds(values["Loaded"])) + CLOCK_GRAIN_S
            return ServiceState(
                active=values["ActiveState"],
                enabled=values["UnitFileState"],
                # NeedDaemonReload alone misses a first drop-in (seen with systemd 252): its folder
                # is not in the manager's cache of paths. Before 251 there is no load time: then
                # a drop-in newer than the unit's start counts.
                needs_daemon_reload=values["NeedDaemonReload"] == "yes"
                or _seconds(values["DropInWritten"])
                > (boot + _seconds(units_loaded) / 1e6 if units_loaded else started)
                + CLOCK_GRAIN_S,
                stale=_seconds(values["Written"]) > started + CLOCK_GRAIN_S,
                reload_due=_seconds(values["ReloadWritten"]) > loaded,
            )
        except KeyError as error:
            raise FactProcessError(f"unit state, {error} missing") from error


def _written(label: str, files: Iterable[str]) -> str:
    quoted = " ".join(shlex.quote(path) for path in files)
    return (
        f'for f in {quoted}; do if [ -e "$f" ]; then echo {label}=$(stat -L -c %.9Z "$f"); fi; done'
    )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise FactProcessError(f"unit state, not a time: {text!r}") from error
