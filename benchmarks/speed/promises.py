"""Documented performance limits, as ratios between rows of one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.speed.figures import LOCKSTEP, Row, figure

PLAIN, ANSIBLE, CLUSH = "plain pyinfra", "ansible", "probe by clush"


@dataclass(frozen=True)
class Promise:
    """A limit for a figure of Lockstep, or for its ratio to another series."""

    text: str
    task: str
    measure: str
    """Field of a row."""
    bound: float
    other: str = ""
    """Series whose figure is divided by Lockstep's; empty: Lockstep's own figure."""
    other_task: str = ""
    """Task of the other series, if different."""
    workers: int | None = None
    """Number of workers; None: any."""
    round_trip_ms: float | None = None
    at_most: bool = False
    """Whether the bound is an upper limit; False: a lower limit."""

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit."""
        return value <= self.bound if self.at_most else value >= self.bound


PROMISES = (
    Promise("executions per node", "rerun", "sessions_per_node", 3, at_most=True),
    Promise("CPU, plain pyinfra / Lockstep", "rerun", "cpu_per_node_s", 5, PLAIN, workers=50),
    Promise("CPU, ansible / Lockstep", "rerun", "cpu_per_node_s", 40, ANSIBLE, workers=50),
    Promise("wall, plain / Lockstep", "rerun", "wall_s", 5, PLAIN, workers=1, round_trip_ms=20),
    Promise("wall, plain / Lockstep", "rerun", "wall_s", 3, PLAIN, workers=10, round_trip_ms=20),
    Promise(
        "wall, ansible / Lockstep", "rerun", "wall_s", 40, ANSIBLE, workers=10, round_trip_ms=20
    ),
    Promise("wall, probe alone / Lockstep", "check", "wall_s", 1 / 1.3, CLUSH, workers=50),
    Promise(
        "CPU, plain rerun / Lockstep", "check", "cpu_per_node_s", 10, PLAIN, "rerun", workers=50
    ),
    Promise("wall, testinfra / Lockstep", "check", "wall_s", 30, "testinfra"),
    Promise("wall, apt-get / Lockstep", "deploy", "wall_s", 1 / 1.5, "apt-get by clush"),
)
HEADER = (
    "| task | workers | round trip | promise | wanted | measured | |\n"
    "|---|---:|---:|---|---|---:|---|"
)


def table(rows: Sequence[Row]) -> str:
    """Return all measured limits as a Markdown table."""
    lines = [HEADER]
    for promise in PROMISES:
        for row in rows:
            value = _value(promise, row, rows)
            if value is None:
                continue
            kept = "kept" if promise.holds(value) else "**not kept**"
            wanted = f"{'at most' if promise.at_most else 'at least'} {figure(promise.bound)}"
            place = f"{row.task} | {_workers(row)} | {row.round_trip_ms:g} ms"
            lines.append(f"| {place} | {promise.text} | {wanted} | {figure(value)} | {kept} |")
    return "\n".join(lines) + "\n"


def _value(promise: Promise, lockstep: Row, rows: Iterable[Row]) -> float | None:
    """Return the value for a limit from this row of Lockstep, if it applies."""
    if (lockstep.series, lockstep.task) != (LOCKSTEP, promise.task):
        return None
    if promise.workers not in (None, _workers(lockstep)):
        return None
    if promise.round_trip_ms not in (None, lockstep.round_trip_ms):
        return None
    own: float | None = getattr(lockstep, promise.measure)
    if own is None or not promise.other:
        return own
    wanted = (promise.other_task or promise.task, promise.other, _workers(lockstep))
    for row in rows:
        there = (row.task, row.series, _workers(row))
        if there == wanted and row.round_trip_ms == lockstep.round_trip_ms:
            other: float = getattr(row, promise.measure)
            return other / own
    return None


def _workers(row: Row) -> int:
    """Return the number of workers; a check also reads the head."""
    return row.nodes - (row.task == "check")
