"""Calculates medians and ratios from runs, and formats the table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LOCKSTEP = "lockstep"


@dataclass(frozen=True)
class Run:
    """One run of a series."""

    task: str
    series: str
    nodes: int
    """Number of nodes."""
    round_trip_ms: float
    number: int
    """0 is the warm-up, which does not count."""
    wall_s: float
    cpu_s: float
    peak_mib: float
    sent_bytes: int | None = None
    """Bytes sent and received by the control host; None if they cannot be counted."""
    sessions: int | None = None
    """Sessions on all nodes; counted only in the last run."""
    load: float = 0.0
    """Load of the machine at the start."""
    machines: int | None = None
    """Number of machines; fewer than nodes if the nodes are names of machines."""


@dataclass(frozen=True)
class Row:
    """Medians of one series under one set of conditions."""

    task: str
    nodes: int
    round_trip_ms: float
    series: str
    runs: int
    wall_s: float
    fastest_s: float
    slowest_s: float
    cpu_per_node_s: float
    peak_mib: float
    kilobytes_per_node: float | None
    sessions_per_node: float | None
    wall_ratio: float | None
    """Ratio to Lockstep under the same conditions; None without a Lockstep run."""
    cpu_ratio: float | None


def under_names(runs: Iterable[Run]) -> list[str]:
    """Return a line for each number of nodes that are names."""
    found = {
        f"{run.task}, {run.nodes} nodes: names of {run.machines} machines"
        for run in runs
        if run.machines and run.nodes > run.machines
    }
    return sorted(found)


Place = tuple[str, int, float]


def rows(runs: Iterable[Run]) -> list[Row]:
    """Return the medians of every series, in order of their first runs."""
    series: dict[tuple[Place, str], list[Run]] = {}
    for run in runs:
        place = (run.task, run.nodes, run.round_trip_ms)
        series.setdefault((place, run.series), []).append(run)
    measured = {key: found for key, of in series.items() if (found := [r for r in of if r.number])}
    return [
        _row(place, name, found, measured.get((place, LOCKSTEP)))
        for (place, name), found in measured.items()
    ]


def _row(place: Place, name: str, found: list[Run], lockstep: list[Run] | None) -> Row:
    task, nodes, round_trip_ms = place
    walls = [run.wall_s for run in found]
    sent = [run.sent_bytes for run in found if run.sent_bytes is not None]
    sessions = [run.sessions for run in found if run.sessions is not None]
    return Row(
        task=task,
        nodes=nodes,
        round_trip_ms=round_trip_ms,
        series=name,
        runs=len(found),
        wall_s=_wall(found),
        fastest_s=min(walls),
        slowest_s=max(walls),
        cpu_per_node_s=_cpu(found) / nodes,
        peak_mib=statistics.median(run.peak_mib for run in found),
        kilobytes_per_node=statistics.median(sent) / nodes / 1000 if sent else None,
        sessions_per_node=statistics.median(sessions) / nodes if sessions else None,
        wall_ratio=_wall(found) / _wall(lockstep) if lockstep else None,
        cpu_ratio=_cpu(found) / _cpu(lockstep) if lockstep else None,
    )


def _wall(runs: list[Run]) -> float:
    return statistics.median(run.wall_s for run in runs)


def _cpu(runs: list[Run]) -> float:
    return statistics.median(run.cpu_s for run in runs)


def table(found: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| task | nodes | round trip | series | wall s | from-to | CPU s/node | executions/node "
        "| kB/node | wall, Lockstep = 1 | CPU, Lockstep = 1 |",
        "|---|---:|---:|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in found:
        cells = [
            *(row.task, str(row.nodes), f"{row.round_trip_ms:g} ms", row.series),
            *(figure(row.wall_s), f"{figure(row.fastest_s)}-{figure(row.slowest_s)}"),
            *(figure(row.cpu_per_node_s), figure(row.sessions_per_node)),
            *(figure(row.kilobytes_per_node), figure(row.wall_ratio), figure(row.cpu_ratio)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def figure(value: float | None) -> str:
    """Return a number with at most three significant digits, without an exponent."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 0.001 else "0"
