"""What a unit does, and whether it runs on the files that are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

LOADED = "/run/lockstep/loaded"
"""Holds a file per unit: its invocation and the files it had read when we last (re)started it."""

MANAGER = "systemd-manager"
"""Name under ``LOADED`` for systemd itself; its invocation is the boot."""

CLOCK_GRAIN_S = 0.02
"""ctime advances with the kernel's tick and uptime has two digits: closer than this is equal."""


SHOW_MANAGER = (
    # systemd started its own life when it entered user space.
    "systemctl show -p UserspaceTimestampMonotonic "
    "| sed s/^Userspace/ActiveEnter/; echo ActiveState=active; "
    "echo UnitFileState=enabled; echo NeedDaemonReload=no; "
    'echo "InvocationID=$(cat /proc/sys/kernel/random/boot_id)"'
)
LABELS = {"File": "files", "ReloadFile": "reload_files"}
"""What a line begins with -> the argument of ``Service`` whose paths it is about."""
NAMES = "Names="
"""Also of a unit that is not there, and with all its aliases."""
NOW = "date +Now=%s.%N; read -r up idle </proc/uptime; echo Uptime=$up"


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
        show = SHOW_MANAGER if unit == MANAGER else _show([unit])
        return (
            f"{show}; {NOW}; "
            f"if [ -e {LOADED}/{name} ]; then sed 's/^/Stamp=/' {LOADED}/{name}; fi; "
            f"{_listed('File', files)}; {_listed('ReloadFile', reload_files)}"
        )

    def command_for_many(self, every: Sequence[dict[str, Any]]) -> str:
        """Return a command that reads many units (``lockstep.fast.foreseen.ForMany``).

        A ``systemctl show`` for each is most of what they cost: each has systemd tell all
        properties of its unit.
        """
        stamps = " ".join(shlex.quote(f"{LOADED}/{unit}") for unit in chain(*_units(every)))
        units, manager = _units(every)
        shows = [
            *([f"{_show(units)} -p Names"] if units else []),
            *([SHOW_MANAGER] if manager else []),
        ]
        files = dict.fromkeys(
            path for one in every for key in LABELS.values() for path in one.get(key, ())
        )
        return (
            f"{'; echo; '.join(shows)}; echo; {NOW}; "
            f'n=0; for f in {stamps}; do if [ -e "$f" ]; then '
            'while IFS= read -r l; do printf "Stamp%d=%s\\n" $n "$l"; done <"$f"; fi; '
            f"n=$((n+1)); done; {_listed('Any', files)}"
        )

    def outputs_for_many(
        self, every: Sequence[dict[str, Any]], output: Sequence[str]
    ) -> list[list[str]]:
        """Return of its output what ``command`` would say of each unit.

        Raises:
            ValueError: an answer is missing, or is one too many.
        """
        # systemctl(1) puts an empty line between units.
        *shown, rest = [list(lines) for some, lines in groupby(output, key=bool) if some]
        units = [*chain(*_units(every))]
        state = dict(zip(units, shown, strict=True))
        said: dict[str, list[str]] = {}
        for line in rest:
            label, _, value = line.partition("=")
            said.setdefault(label, []).append(value)
        now = [f"{label}={value}" for label in ("Now", "Uptime") for value in said.get(label, ())]
        files = {value.split(" ", 2)[2]: value for value in said.get("Any", ())}

        def of(one: dict[str, Any]) -> list[str]:
            unit = one["unit"]
            listed = (
                f"{label}={files[path]}"
                for label, key in LABELS.items()
                for path in one.get(key, ())
                if path in files
            )
            stamp = said.get(f"Stamp{units.index(unit)}", ())
            return [*_of(unit, state[unit]), *now, *(f"Stamp={line}" for line in stamp), *listed]

        return [of(one) for one in every]

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


def _show(units: Iterable[str]) -> str:
    properties = (
        "-p ActiveState -p UnitFileState -p NeedDaemonReload "
        "-p ActiveEnterTimestampMonotonic -p InvocationID"
    )
    return f"systemctl show {' '.join(map(shlex.quote, units))} {properties}"


def _of(unit: str, shown: Sequence[str]) -> list[str]:
    """Return what was shown of a unit, without its names.

    Raises:
        ValueError: it is of another one.
    """
    if unit == MANAGER:
        return [*shown]
    names = [line for line in shown if line.startswith(NAMES)]
    if unit not in " ".join(names).removeprefix(NAMES).split():
        raise ValueError(f"{unit}: shown is {names}")
    return [line for line in shown if line not in names]


def _units(every: Iterable[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the units, and systemd itself if it is one of them."""
    names = list(dict.fromkeys(one["unit"] for one in every))
    return [one for one in names if one != MANAGER], [one for one in names if one == MANAGER]


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
