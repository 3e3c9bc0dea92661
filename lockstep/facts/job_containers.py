"""Whether Slurm loads pyxis, and whether enroot's folders are there."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from pyinfra.api import FactBase
from typing_extensions import override

from lockstep.plan.job_containers import SLURM_LOADS


def loads(plugin: str) -> str:
    """Return a shell command that fails, and says why, unless Slurm loads a plugin."""
    tried = SLURM_LOADS.format(new='"$line"')
    return (
        f'line="$(mktemp)"; echo {shlex.quote(f"required {plugin}")} > "$line"; '
        f'( {tried} ); status=$?; rm "$line"; exit $status'
    )


class PyxisLoads(FactBase[bool]):
    """Returns whether Slurm, as it is installed, loads a plugin."""

    @override
    def command(self, plugin: str) -> str:
        return f"if ( {loads(plugin)} ) 2>/dev/null; then echo yes; else echo no; fi"

    @override
    def process(self, output: Iterable[str]) -> bool:
        return list(output) == ["yes"]


class FoldersForAll(FactBase[frozenset[str]]):
    """Returns those of some folders in which everybody may make a folder of their own."""

    @override
    def command(self, folders: Iterable[str]) -> str:
        quoted = " ".join(shlex.quote(folder) for folder in folders)
        # stat ends with 1 for a folder that is not there: an answer.
        return f"stat -c '%n %a %U %F' {quoted} 2>/dev/null; echo end"

    @override
    def process(self, output: Iterable[str]) -> frozenset[str]:
        lines = [line.split(" ", 1) for line in output]
        return frozenset(line[0] for line in lines if line[1:] == ["1777 root directory"])
