"""The node's manifest as a deploy needs it: its text, this boot, and packages that ship paths."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

from lockstep.node.readers.manifest import MANIFEST

OF_PACKAGES = "/var/lib/ucf/registry"
"""Files that a package makes with ucf(1): its name and the path, a line each."""


@dataclass(frozen=True)
class ManifestState:
    """A node's manifest."""

    text: str
    """Empty where the node has none."""
    boot: str
    """Differs between any two boots; ``lockstep.node.readers.manifest.boot`` says the same."""


class Manifest(FactBase[ManifestState]):
    """Returns the node's manifest, and which boot of the node this is."""

    @override
    def command(self, path: str = MANIFEST) -> str:
        file = shlex.quote(path)
        return (
            'echo "boot $(cat /proc/sys/kernel/random/boot_id) '
            "$(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)\"; "
            f"if [ -e {file} ]; then cat {file}; fi"
        )

    @override
    def process(self, output: Iterable[str]) -> ManifestState:
        first, *lines = output
        what, _, boot = first.partition(" ")
        if what != "boot" or len(boot.split()) != 2:
            raise FactProcessError(f"manifest, unexpected line {first!r}")
        return ManifestState("\n".join(lines), boot)


class ShippedBy(FactBase[dict[str, str]]):
    """Returns path -> package, of those paths at which a package ships a file (dpkg-query(1))."""

    @override
    def command(self, paths: Iterable[str]) -> str:
        every = tuple(paths)
        quoted = " ".join(map(shlex.quote, every))
        lines = shlex.quote("\n".join(every))
        return (
            # It ends with 1 where no package has one of the paths: that is an answer.
            f"LC_ALL=C dpkg-query -S {quoted} 2>/dev/null; "
            f"if [ -e {OF_PACKAGES} ]; then printf '%s\\n' {lines} | "
            f"awk 'NR == FNR {{ asked[$0]; next }} $2 in asked {{ print $1 \": \" $2 }}' "
            f"- {OF_PACKAGES}; fi; echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in output:
            packages, separator, path = line.partition(": ")
            if separator and not packages.startswith("diversion "):
                # A file of several architectures of a package has each of them.
                found.setdefault(path, packages.split(", ")[0].partition(":")[0])
        return found
