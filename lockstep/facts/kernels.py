"""The kernels that count on a node: the one that runs, and the one that boots next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

from lockstep.node.readers.driver import FLAVOURS, MODULES
from lockstep.node.readers.grub import RELEASE, RESCUE, Entry, Grub
from lockstep.plan.driver import BootKernels, Kernel

GRUB = ("/boot/grub", "/boot/grub2")
"""Folder of grub.cfg and grubenv: Debian's, the RHEL family's."""
ENTRIES = "/boot/loader/entries"
"""Boot Loader Specification; the name of a file is the id of its entry."""
LINES = "(menuentry|submenu|function|if|linux(16|efi)?)[[:space:]].*|set default=.*|blscfg|fi|\\}"
READ = (
    f"for d in {' '.join(GRUB)}; do "
    f"sed -n -E 's/^[[:space:]]*({LINES})[[:space:]]*$/menu \\1/p' $d/grub.cfg; "
    "sed -n -E 's/^(next|saved|prev_saved)_entry=/env &/p' $d/grubenv; "
    f"done 2>/dev/null; for f in {ENTRIES}/*.conf; do "
    'sed -n -E "s,^(title|linux)[[:space:]]+,bls $(basename "$f" .conf)/&,p" "$f"; '
    "done 2>/dev/null"
)
"""Prints GRUB's menu, its environment block and the further entries, where there are any."""
NO_MENU = "no menu of GRUB here"


def has_module(kernel: str, version: str) -> str:
    """Return a command that fails where a kernel has no module of this version on disk."""
    files = f"modinfo -k {shlex.quote(kernel)} -F version {' '.join(MODULES)} 2>/dev/null"
    return f"{files} | grep -q -x -F {shlex.quote(version)}"


class LoadedModules(FactBase[frozenset[str]]):
    """Returns those of some kernel modules that are loaded; lsmod(8) writes "-" as "_"."""

    @override
    def command(self, names: Iterable[str]) -> str:
        return (
            f"for name in {shlex.join(names)}; do "
            'if [ -d "/sys/module/$(echo "$name" | tr - _)" ]; then echo "$name"; fi; '
            "done; echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> frozenset[str]:
        return frozenset(output) - {"end"}


class Kernels(FactBase[BootKernels]):
    """Returns the running kernel, and the one that GRUB boots next or all that it may."""

    @override
    def command(self) -> str:
        return (
            f'grub=$({READ}); printf "%s\\n" "$grub"; '
            # /boot may be a file system of its own: the path in the menu is not the one here.
            "for k in $(uname -r) $(printf '%s\\n' \"$grub\" | "
            "sed -n -E 's,^(menu|bls) .*/vmlinuz-([^[:space:]]+).*,\\2,p' | sort -u); do "
            'if [ -d "/lib/modules/$k/build/" ]; then headers=yes; else headers=no; fi; said=; '
            f"for name in {' '.join(MODULES)}; do "
            'version=$(modinfo -k "$k" -F version "$name" 2>/dev/null) || continue; '
            'said="$version $(modinfo -k "$k" -F license "$name")"; break; done; '
            'echo "kernel $k $headers $said"; done'
        )

    @override
    def process(self, output: Iterable[str]) -> BootKernels:
        said: dict[str, list[str]] = {"menu": [], "env": [], "bls": [], "kernel": []}
        for line in output:
            kind, _, rest = line.partition(" ")
            if kind in said:
                said[kind].append(rest.strip())
        running, *others = map(_kernel, said["kernel"])
        in_menu = {one.release: one for one in others}
        if not others:
            return BootKernels(running, (running,), NO_MENU)
        env = dict(line.split("=", 1) for line in said["env"])
        grub = Grub(said["menu"], env, _further(said["bls"]))
        release = grub.next_kernel()
        if release in in_menu:
            return BootKernels(running, (in_menu[release],))
        return BootKernels(
            running,
            tuple(one for one in in_menu.values() if not one.release.startswith(RESCUE)),
            grub.unclear(),
        )


def _kernel(line: str) -> Kernel:
    release, headers, version, licence = [*line.split(" ", 3), "", ""][:4]
    if headers not in ("yes", "no"):
        raise FactProcessError(f"kernels, unexpected line {line!r}")
    flavour = FLAVOURS.get(licence, licence)
    return Kernel(release, headers == "yes", f"{version} ({flavour})" if version else "")


def _further(lines: Iterable[str]) -> list[Entry]:
    """Return the entries of files: each line is its id, a slash, a key and its value."""
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        name, _, setting = line.partition("/")
        key, value = [*setting.split(None, 1), ""][:2]
        found.setdefault(name, {})[key] = value.strip()
    return [
        Entry(
            frozenset({name, keys.get("title", name)}),
            kernel.group(1) if (kernel := RELEASE.search(keys.get("linux", ""))) else "",
        )
        for name, keys in found.items()
    ]
