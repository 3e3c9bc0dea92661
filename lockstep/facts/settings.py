"""Questions about the current settings of the operating system, the kernel and systemd."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lockstep.question import Question, Taken, question


@dataclass
class SettingsState:
    """The settings in effect, which may differ from those in files."""

    host_name: str = ""
    time_zone: str = ""
    """Target of /etc/localtime, relative to /usr/share/zoneinfo; "" if it is not a link."""
    sysctl: dict[str, str] = field(default_factory=dict)
    """Key -> value, with single spaces; keys that the kernel lacks are left out."""
    masked: frozenset[str] = frozenset()
    locales: frozenset[str] = frozenset()


def settings(sysctls: Iterable[str], units: Iterable[str]) -> Question[SettingsState]:
    """Ask for the current settings, including these sysctls and whether these units are masked."""
    keys, names = tuple(sysctls), tuple(units)

    def answer(taken: Taken) -> SettingsState:
        # A key that this kernel lacks is left out: setting it fails with a message.
        running = {key: taken.known("sysctl.running", key) for key in keys}
        return SettingsState(
            taken["os.hostname"],
            # Without a link the time zone has no name; the role creates the link.
            taken.known("os.time_zone") or "",
            {key: value for key, value in running.items() if value is not None},
            frozenset(name for name in names if taken.item("units", name)["enabled"] == "masked"),
            frozenset(taken["os.locales"]),
        )

    readings = ("os.hostname", "os.time_zone", "os.locales", "sysctl.running", "units")
    return Question("settings", readings, answer, {"sysctls": keys, "units": names})


def kernel_files(patterns: tuple[str, ...]) -> Question[dict[str, str]]:
    """Ask for the first line of each file in /sys and /proc that matches a pattern, by path."""

    def answer(taken: Taken) -> dict[str, str]:
        return {
            path: line
            for pattern in patterns
            for path, line in taken.item("kernel.files", pattern).items()
            # Files of an offline CPU exist but cannot be read; the rule cpu.count reports the CPU.
            if isinstance(line, str) and line
        }

    return Question("kernel files", ("kernel.files",), answer, {"kernel_files": patterns})


@question("CPUs of services", "cpuset.groups")
def cpus_of_services(taken: Taken) -> dict[str, frozenset[str]]:
    """Ask for the CPU lists of all services and login sessions, keyed by control group."""
    return {group: frozenset(lists) for group, lists in taken["cpuset.groups"].items()}


@question("CPUs of systemd", "cpuset.manager")
def cpus_of_systemd(taken: Taken) -> str:
    """Ask for the CPUs of PID 1; the processes that it starts inherit them."""
    return str(taken["cpuset.manager"])
