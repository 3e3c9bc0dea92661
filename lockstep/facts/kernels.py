"""The kernels that count on a node: the one that runs, and the one that boots next."""

from __future__ import annotations

from collections.abc import Iterable

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

from lockstep.facts.boot import MENU
from lockstep.plan.driver import Kernel
from lockstep.probe.node.driver import FLAVOURS, MODULES

NEXT = (
    # /boot may be a file system of its own: the path in GRUB's menu is not the one on the node.
    "sed -n -E 's,^[[:space:]]*linux(16|efi)?[[:space:]]+[^[:space:]]*/vmlinuz-([^[:space:]]+).*"
    f",\\2,p' {MENU} 2>/dev/null | head -n 1"
)


def has_module(kernel: str, version: str) -> str:
    """Return a command that fails where a kernel has no module of this version on disk."""
    files = f"modinfo -k {kernel} -F version {' '.join(MODULES)} 2>/dev/null"
    return f"{files} | grep -q -x -F {version}"


class LoadedModules(FactBase[frozenset[str]]):
    """Returns those of some kernel modules that are loaded; lsmod(8) writes "-" as "_"."""

    @override
    def command(self, names: Iterable[str]) -> str:
        return (
            f"for name in {' '.join(names)}; do "
            'if [ -d "/sys/module/$(echo "$name" | tr - _)" ]; then echo "$name"; fi; '
            "done; echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> frozenset[str]:
        return frozenset(output) - {"end"}


class Kernels(FactBase[tuple[Kernel, ...]]):
    """Returns the running kernel, then that of the menu's first entry where it is another one."""

    @override
    def command(self) -> str:
        return (
            f'running=$(uname -r); next=$({NEXT}); [ "$next" != "$running" ] || next=; '
            "for k in $running $next; do "
            'if [ -d "/lib/modules/$k/build/" ]; then headers=yes; else headers=no; fi; said=; '
            f"for name in {' '.join(MODULES)}; do "
            'version=$(modinfo -k "$k" -F version "$name" 2>/dev/null) || continue; '
            'said="$version $(modinfo -k "$k" -F license "$name")"; break; done; '
            'echo "$k $headers $said"; done'
        )

    @override
    def process(self, output: Iterable[str]) -> tuple[Kernel, ...]:
        kernels = []
        for line in output:
            release, headers, version, licence = [*line.split(" ", 3), "", ""][:4]
            if headers not in ("yes", "no"):
                raise FactProcessError(f"kernels, unexpected line {line!r}")
            flavour = FLAVOURS.get(licence, licence)
            module = f"{version} ({flavour})" if version else ""
            kernels.append(Kernel(release, headers == "yes", module))
        return tuple(kernels)
