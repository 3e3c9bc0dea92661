"""What the tool promises to cost, as ratios between rows of one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.speed.figures import OURS, Row, figure

PLAIN, ANSIBLE, CLUSH = "plain pyinfra", "ansible", "probe by clush"


@dataclass(frozen=True)
class Promise:
    """One figure of ours, or how many times as much another series' is."""

    text: str
    task: str
    measure: str
    """Field of a row."""
    bound: float
    other: str = ""
    """Series whose figure is divided by ours; empty: ours itself."""
    other_task: str = ""
    """Of the other series, where it is another one."""
    workers: int | None = None
    """None: wherever it was measured."""
    round_trip_ms: float | None = None
    at_most: bool = False
    """False: at least."""

    def holds(self, value: float) -> bool:
        """Say whether a value keeps it."""
        return value <= self.bound if self.at_most else value >= self.bound


PROMISES = (
    Promise("executions per node", "rerun", "sessions_per_node", 3, at_most=True),
    Promise("CPU, plain pyinfra / ours", "rerun", "cpu_per_node_s", 5, PLAIN, workers=50),
    Promise("CPU, ansible / ours", "rerun", "cpu_per_node_s", 40, ANSIBLE, workers=50),
    Promise("wall, plain / ours", "rerun", "wall_s", 5, PLAIN, workers=1, round_trip_ms=20),
    Promise("wall, plain / ours", "rerun", "wall_s", 3, PLAIN, workers=10, round_trip_ms=20),
    Promise("wall, ansible / ours", "rerun", "wall_s", 40, ANSIBLE, workers=10, round_trip_ms=20),
    Promise("wall, probe alone / ours", "check", "wall_s", 1 / 1.3, CLUSH, workers=50),
    Promise("CPU, plain rerun / ours", "check", "cpu_per_node_s", 10, PLAIN, "rerun", workers=50),
    Promise("wall, testinfra / ours", "check", "wall_s", 30, "testinfra"),
    Promise("wall, apt-get / ours", "deploy", "wall_s", 1 / 1.5, "apt-get by clush"),
)
HEADER = (
    "| task | workers | round trip | promise | wanted | measured | |\n"
    "|---|---:|---:|---|---|---:|---|"
)


def table(rows: Sequence[Row]) -> str:
    """Return each promise wherever it was measured, as a Markdown table."""
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


def _value(promise: Promise, ours: Row, rows: Iterable[Row]) -> float | None:
    """Return what a promise is about, where this row of ours is the one that gave it."""
    if (ours.series, ours.task) != (OURS, promise.task):
        return None
    if promise.workers not in (None, _workers(ours)):
        return None
    if promise.round_trip_ms not in (None, ours.round_trip_ms):
        return None
    own: float | None = getattr(ours, promise.measure)
    if own is None or not promise.other:
        return own
    wanted = (promise.other_task or promise.task, promise.other, _workers(ours))
    for row in rows:
        there = (row.task, row.series, _workers(row))
        if there == wanted and row.round_trip_ms == ours.round_trip_ms:
            other: float = getattr(row, promise.measure)
            return other / own
    return None


def _workers(row: Row) -> int:
    """Return how many workers the lab had: a check reads the head, too."""
    return row.nodes - (row.task == "check")
