"""Slurm's release series, and which of them can work together.

Source: the upgrade guide, "Compatibility Window" and the table of releases
(https://slurm.schedmd.com/upgrades.html), looked up on 2026-11-24.
"""

from __future__ import annotations

import re

Series = tuple[int, int]
"""Such as (24, 11)."""

SERIES: tuple[Series, ...] = (
    *((20, 11), (21, 8), (22, 5), (23, 2), (23, 11)),
    *((24, 5), (24, 11), (25, 5), (25, 11), (26, 5)),
)
"""The oldest first."""
THREE_EARLIER_FROM: Series = (24, 11)
"""From this series on, a daemon accepts the three earlier series; before, the two earlier ones."""


def text(series: Series) -> str:
    """Return a series as SchedMD writes it: ``24.05``."""
    return f"{series[0]}.{series[1]:02}"


def of_version(version: str) -> Series | None:
    """Return the series of a package version; None if the version begins with a pattern."""
    found = re.match(r"(?:\d+:)?(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def accepted_by(series: Series) -> tuple[Series, ...]:
    """Return the series whose daemons and commands a daemon accepts, its own first.

    Empty for a series that the table lacks.
    """
    if series not in SERIES:
        return ()
    last = SERIES.index(series)
    earlier = 3 if series >= THREE_EARLIER_FROM else 2
    return SERIES[max(0, last - earlier) : last + 1][::-1]
