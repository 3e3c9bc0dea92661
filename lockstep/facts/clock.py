"""Whether a node's clock follows its source."""

from __future__ import annotations

from collections.abc import Iterable

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

LOCAL_REFERENCE = "7F7F0101"
"""Reference id of chronyd's own ``local`` clock (chronyc(1), tracking)."""


class ClockOffset(FactBase[float | None]):
    """Returns how far the clock is from its source, in seconds; None without a source.

    chronyc(1), tracking: column 0 is the reference id, 4 the offset, 13 the leap status.
    """

    @override
    def command(self) -> str:
        # chronyd that does not run is an answer: no source.
        return "chronyc -c tracking 2>/dev/null; echo end"

    @override
    def process(self, output: Iterable[str]) -> float | None:
        columns = next(iter(output)).split(",")
        if len(columns) < 14 or columns[13] == "Not synchronised" or columns[0] == LOCAL_REFERENCE:
            return None
        try:
            return float(columns[4])
        except ValueError as error:
            raise FactProcessError(f"chronyc tracking, not a time: {columns[4]!r}") from error
