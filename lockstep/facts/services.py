"""What a unit does, and whether it runs on the files that are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

LOADED = "/run/lockstep/loaded"
"""Holds a file per unit: its invocation and the files it had read when we last (re)started it."""

MANAGER = "systemd-manager"
"""Name under ``LOADED`` for systemd itself; its invocation is the boot."""

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


class Service(FactBase[ServiceState]):
    """Returns the state of a unit, and whether its files are what it has loaded.

    Whoever (re)starts a unit with ``loaded_stamp`` leaves what it read (ctime and inode of each
    file): equal means loaded, whatever the clock did since. For a unit that something else
    started, a file written after the start counts as not loaded. Either way the answer is on the
    node, so a deploy that was killed between a write and a restart is completed by the next one.
    ``unit`` may be ``MANAGER``: systemd itself.
    """

    @override
    def command(
        self, unit: str, files: Iterable[str] = (), reload_files: Iterable[str] = ()
    ) -> str:
        name = shlex.quote(unit)
        show = (
            f"systemctl show {name} -p ActiveState -p UnitFileState -p NeedDaemonReload "
            "-p ActiveEnterTimestampMonotonic -p InvocationID"
        )
        if unit == MANAGER:
            # systemd started its own life when it entered user space.
            show = (
                "systemctl show -p UserspaceTimestampMonotonic "
                "| sed s/^Userspace/ActiveEnter/; echo ActiveState=active; "
                "echo UnitFileState=enabled; echo NeedDaemonReload=no; "
                'echo "InvocationID=$(cat /proc/sys/kernel/random/boot_id)"'
            )
        return (
            f"{show}; date +Now=%s.%N; read -r up idle </proc/uptime; echo Uptime=$up; "
            f"if [ -e {LOADED}/{name} ]; then sed 's/^/Stamp=/' {LOADED}/{name}; fi; "
            f"{_listed('File', files)}; {_listed('ReloadFile', reload_files)}"
        )

    @override
    def process(self, output: Iterable[str]) -> ServiceState:
        values: dict[str, str] = {}
        stamp: list[str] = []
        files: list[str] = []
        reload_files: list[str] = []
        lists = {"Stamp": stamp, "File": files, "ReloadFile": reload_files}
        for line in output:
            key, _, value = line.partition("=")
            if key in lists:
                lists[key].append(value)
            else:
                values[key] = value
        try:
            ours = stamp[:1] == [values["InvocationID"]]
            boot = _seconds(values["Now"]) - _seconds(values["Uptime"])
            started = boot + _seconds(values["ActiveEnterTimestampMonotonic"]) / 1e6

            def changed(listed: list[str]) -> bool:
                if ours:
                    return not set(listed) <= set(stamp[1:])
                written = (_seconds(line.partition(" ")[0]) for line in listed)
                return max(written, default=0.0) > started + CLOCK_GRAIN_S

            return ServiceState(
                active=values["ActiveState"],
                enabled=values["UnitFileState"],
                needs_daemon_reload=values["NeedDaemonReload"] == "yes",
                stale=changed(files),
                reload_due=changed(reload_files),
            )
        except KeyError as error:
            raise FactProcessError(f"unit state, {error} missing") from error


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


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise FactProcessError(f"unit state, not a time: {text!r}") from error
