"""Settings below /sys and /proc of the running kernel."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from pyinfra.api import FactBase
from typing_extensions import override


class KernelFiles(FactBase[dict[str, str]]):
    """Returns file -> first line, for every file that the patterns cover."""

    @override
    def command(self, patterns: Iterable[str]) -> str:
        # Quoted but for the star: the node expands it.
        words = " ".join("*".join(map(shlex.quote, p.split("*"))) for p in patterns)
        return (
            # A CPU that is off keeps its files and answers none of them: cpu.count names it.
            f'for f in {words}; do if v="$(head -n1 "$f" 2>/dev/null)" && [ -n "$v" ]; then '
            'echo "$f $v"; fi; done; '
            "echo end"
        )

    @override
    def process(self, output: Iterable[str]) -> dict[str, str]:
        rows = [line.partition(" ") for line in output if line != "end"]
        return {path: value for path, _, value in rows}
