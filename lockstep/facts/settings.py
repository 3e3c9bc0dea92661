"""Running settings of the operating system, read in one go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lockstep.facts.reading import Question, Taken, Unreadable


@dataclass
class SettingsState:
    """What runs now, whatever the files say."""

    host_name: str = ""
    time_zone: str = ""
    """Where /etc/localtime points, below /usr/share/zoneinfo; "" when it is no link."""
    sysctl: dict[str, str] = field(default_factory=dict)
    """Key -> value, blanks folded to one space; a key the kernel does not have is left out."""
    masked: frozenset[str] = frozenset()
    locales: frozenset[str] = frozenset()


READINGS = ("os.hostname", "os.time_zone", "os.locales", "sysctl.running", "units")


def settings(sysctls: Iterable[str], units: Iterable[str]) -> Question[SettingsState]:
    """Ask for running settings; ``sysctls`` and ``units`` say which."""
    keys, names = tuple(sysctls), tuple(units)

    def answer(taken: Taken) -> SettingsState:
        return SettingsState(
            taken["os.hostname"],
            # No link has no name of a zone: the role makes one, whatever the reason is.
            "" if taken.unread("os.time_zone") else taken["os.time_zone"],
            dict(_values(taken, keys)),
            frozenset(name for name in names if taken.item("units", name)["enabled"] == "masked"),
            frozenset(taken["os.locales"]),
        )

    return Question("settings", READINGS, answer, {"sysctls": keys, "units": names})


def _values(taken: Taken, keys: Iterable[str]) -> Iterable[tuple[str, str]]:
    for key in keys:
        try:
            yield key, taken.item("sysctl.running", key)
        except Unreadable:
            continue  # this kernel lacks the key: setting it fails, and says so
