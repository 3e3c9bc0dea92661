"""Whether a node's clock follows its source."""

from __future__ import annotations

from collections.abc import Iterable

from pyinfra.api import FactBase
from typing_extensions import override

LOCAL_REFERENCE = "7F7F0101"
"""Reference id of chronyd's own ``local`` clock (chronyc(1), tracking)."""


class ClockSynchronised(FactBase[bool]):
    """Returns whether chronyd is synchronised to a source other than itself."""

    @override
    def command(self) -> str:
        # chronyd that does not run is an answer: not synchronised.
        return "chronyc -c tracking 2>/dev/null; echo end"

    @override
    def process(self, output: Iterable[str]) -> bool:
        columns = next(iter(output)).split(",")
        return len(columns) > 13 and columns[13] == "Normal" and columns[0] != LOCAL_REFERENCE
