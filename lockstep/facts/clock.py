"""Whether a node's clock follows its source."""

from __future__ import annotations

from collections.abc import Iterable

from pyinfra.api import FactBase, FactProcessError
from typing_extensions import override

from lockstep.node.readers.clock import LOST_AFTER_S as LOST_AFTER_S
from lockstep.node.readers.clock import LOST_INTERVALS as LOST_INTERVALS
from lockstep.node.readers.clock import OWN_CLOCK as OWN_CLOCK
from lockstep.node.readers.clock import follows


class ClockOffset(FactBase[float | None]):
    """Returns how far the clock is from its source, in seconds; None without a source.

    chronyc(1), tracking: column 0 is the reference id, 4 the offset. Servers that have not been
    heard for long are no source, as for the check.
    """

    @override
    def command(self) -> str:
        # chronyd that does not run is an answer: no source.
        return "chronyc -c tracking 2>/dev/null; date +%s"

    @override
    def process(self, output: Iterable[str]) -> float | None:
        *lines, now = output
        columns = lines[0].split(",") if lines else []
        if len(columns) < 14 or columns[0] == OWN_CLOCK:
            return None
        try:
            return float(columns[4]) if follows(columns, float(now)) else None
        except ValueError as error:
            raise FactProcessError(f"chronyc tracking, not a time: {error}") from error
