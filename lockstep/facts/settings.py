"""Running settings of the operating system, read in one go."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override


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


class Settings(FactBase[SettingsState]):
    """Returns running settings; ``sysctls`` and ``units`` say which."""

    @override
    def command(self, sysctls: Iterable[str] = (), units: Iterable[str] = ()) -> str:
        keys = " ".join(shlex.quote(key) for key in sysctls)
        names = " ".join(shlex.quote(unit) for unit in units)
        # An answer for each unit, in their order.
        show = f"echo units {names}; systemctl show {names} -p UnitFileState; " if names else ""
        return (
            'echo "host_name $(uname -n)"; echo "time_zone $(readlink /etc/localtime)"; '
            f"for k in {keys}; do "
            # A key this kernel lacks gives no line; setting it then fails and says so.
            'v="$(sysctl -n "$k" 2>/dev/null)" && echo "sysctl $k $v"; done; '
            f"{show}locale -a | sed 's/^/locale /'"
        )

    @override
    def process(self, output: Iterable[str]) -> SettingsState:
        state = SettingsState()
        locales = set()
        units: list[str] = []
        enabled: list[str] = []
        for line in output:
            what, _, rest = line.partition(" ")
            if what == "host_name":
                state.host_name = rest
            elif what == "time_zone":
                state.time_zone = rest.rpartition("/usr/share/zoneinfo/")[2]
            elif what == "sysctl":
                key, _, value = rest.partition(" ")
                state.sysctl[key] = " ".join(value.split())
            elif what == "units":
                units = rest.split()
            elif line.startswith("UnitFileState="):
                enabled.append(line.partition("=")[2])
            elif what == "locale":
                locales.add(rest.lower().replace("-", ""))
        if len(units) != len(enabled):
            raise FactProcessError(f"settings, {len(enabled)} answers for {len(units)} units")
        state.masked = frozenset(
            unit for unit, said in zip(units, enabled, strict=True) if said == "masked"
        )
        state.locales = frozenset(locales)
        return state
