"""Running settings of the operating system, read in one go."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyinfra.api import FactBase
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
        return (
            'echo "host_name $(uname -n)"; echo "time_zone $(readlink /etc/localtime)"; '
            f"for k in {keys}; do "
            # A key this kernel lacks gives no line; setting it then fails and says so.
            'v="$(sysctl -n "$k" 2>/dev/null)" && echo "sysctl $k $v"; done; '
            f"for u in {names}; do "
            'echo "unit $u $(systemctl show "$u" -p UnitFileState --value)"; done; '
            "locale -a | sed 's/^/locale /'"
        )

    @override
    def process(self, output: Iterable[str]) -> SettingsState:
        state = SettingsState()
        masked, locales = set(), set()
        for line in output:
            what, _, rest = line.partition(" ")
            if what == "host_name":
                state.host_name = rest
            elif what == "time_zone":
                state.time_zone = rest.rpartition("/usr/share/zoneinfo/")[2]
            elif what == "sysctl":
                key, _, value = rest.partition(" ")
                state.sysctl[key] = " ".join(value.split())
            elif what == "unit" and rest.endswith(" masked"):
                masked.add(rest.split()[0])
            elif what == "locale":
                locales.add(rest.lower().replace("-", ""))
        state.masked, state.locales = frozenset(masked), frozenset(locales)
        return state
