"""Which versions of packages are installed, and whether dpkg was interrupted."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase
from typing_extensions import override


@dataclass(frozen=True)
class PackageState:
    """Installed versions of the packages asked for."""

    installed: dict[str, str]
    """Package -> version, for those that are wholly installed."""
    interrupted: bool
    """dpkg was stopped in the middle; ``dpkg --configure -a`` is due before anything else."""
    held: frozenset[str] = frozenset()
    """Those of them that apt leaves alone (apt-mark(8), hold)."""
    unfinished: frozenset[str] = frozenset()
    """Those of them that dpkg began with and did not finish."""


class Packages(FactBase[PackageState]):
    """Returns the state of some packages; dpkg-query(1)."""

    @override
    def command(self, names: Iterable[str]) -> str:
        quoted = " ".join(shlex.quote(name) for name in names)
        return (
            # dpkg-query ends with 1 when a package is unknown: that is an answer, not a failure.
            "dpkg-query -W -f='${Package} ${Version} ${db:Status-Status} ${db:Status-Want}\\n' "
            f"{quoted} 2>/dev/null; "
            # A dpkg-query that fails for another reason fails here as well: there are packages.
            "all=$(dpkg-query -W -f='${db:Status-Status}\\n') || exit; "
            # Not `dpkg --audit`: it also lists whole packages that merely lack a list of hashes.
            """echo "interrupted $(printf '%s\\n' "$all" """
            "| grep -c -v -x -E 'installed|config-files|not-installed') "
            '$(find /var/lib/dpkg/updates -type f | wc -l)"'
        )

    @override
    def process(self, output: Iterable[str]) -> PackageState:
        installed: dict[str, str] = {}
        interrupted = False
        held = set()
        unfinished = set()
        for line in output:
            name, first, second, *wanted = line.split(" ")
            if name == "interrupted":
                interrupted = (first, second) != ("0", "0")
            elif second == "installed":
                installed[name] = first
            elif second not in ("config-files", "not-installed"):
                unfinished.add(name)
            if wanted == ["hold"]:
                held.add(name)
        return PackageState(installed, interrupted, frozenset(held), frozenset(unfinished))
