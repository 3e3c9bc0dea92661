"""Which CPUs the services of a node may use, as the kernel has it."""

from __future__ import annotations

from collections.abc import Iterable

from pyinfra.api import FactBase
from typing_extensions import override

SLICE = "/sys/fs/cgroup/system.slice"
LOGINS = "/sys/fs/cgroup/user.slice"


class ServiceCpus(FactBase[dict[str, frozenset[str]]]):
    """Returns control group -> CPU lists of its processes, of each service and of all logins."""

    @override
    def command(self) -> str:
        return (
            # Without it, nothing could be seen: that is no "nothing to do".
            f"test -d {SLICE} || {{ echo '{SLICE}: no such folder' >&2; exit 1; }}; "
            # A scope is not the system's: a container in it has services of its own.
            f"find {SLICE} -name '*.scope' -prune -o -type d -name '*.service' -print "
            "| while read -r g; do "
            # A process may end between the list and the look: it is nobody's any more.
            'for p in $(find "$g" -name cgroup.procs -exec cat {} +); do '
            "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' \"/proc/$p/status\" 2>/dev/null; "
            # printf: sed and dash's echo would read the backslashes of a slice's name.
            'done | sort -u | while read -r cpus; do printf "%s %s\\n" "$g" "$cpus"; done; done; '
            f"if [ -f {LOGINS}/cpuset.cpus.effective ]; then "
            f'echo "{LOGINS} $(cat {LOGINS}/cpuset.cpus.effective)"; fi; echo end'
        )

    @override
    def process(self, output: Iterable[str]) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for line in output:
            if line != "end":
                group, _, cpus = line.rpartition(" ")
                found.setdefault(group, set()).add(cpus)
        return {group: frozenset(lists) for group, lists in found.items()}


class ManagerCpus(FactBase[str]):
    """Returns the CPUs of PID 1, which it hands on to whatever it starts."""

    @override
    def command(self) -> str:
        return "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/1/status"

    @override
    def process(self, output: Iterable[str]) -> str:
        return next(iter(output)).strip()
