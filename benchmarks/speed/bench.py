"""Runs series in turn from a simulated control host, and records their costs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.speed import meter, sessions
from benchmarks.speed.figures import Run
from benchmarks.speed.meter import Cost
from benchmarks.speed.network import Control
from benchmarks.speed.paths import ROOT
from benchmarks.speed.series import Series
from lab.state import LabState

TAIL = 1000
WITHIN_S = 3600.0
"""Time limit of a run."""
Way = tuple[str, str, int, float]
"""Task, series, nodes, round trip."""


def say(text: str) -> None:
    """Print progress."""
    with suppress(OSError):  # the terminal was closed
        print(text, file=sys.stderr, flush=True)


def nothing() -> None:
    """Prepare nothing."""


class DidNotWork(Exception):
    """A tool failed its task."""


@dataclass
class Bench:
    """A working folder, and all runs so far."""

    folder: Path
    repeat: int
    without: frozenset[str] = frozenset()
    """Series to leave out."""
    runs: list[Run] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Measurements that failed, with reasons."""
    out: set[Way] = field(default_factory=set)
    """Series that failed once; their successful runs do not count."""

    def measure(
        self,
        task: str,
        compared: Sequence[Series],
        lab: LabState,
        control: Control,
        nodes: int,
        before_each: Callable[[], None] = nothing,
        after_each: Callable[[], None] = nothing,
        machines: int | None = None,
    ) -> None:
        """Run each series once as a warm-up, then all of them in turn several times.

        Args:
            task: name of the task.
            compared: the series.
            lab: the lab.
            control: the control host that runs them.
            nodes: number of nodes.
            before_each: prepares a run.
            after_each: checks a run; raises DidNotWork if the task was not done.
            machines: number of machines; fewer than nodes if these are names.
        """
        left = [series for series in compared if series.name not in self.without]
        for number in range(self.repeat + 1):
            # Reverse every second round, to cancel drift.
            for series in left[:: -1 if number % 2 else 1]:
                before_each()
                if not self.once(task, series, lab, control, nodes, number, after_each, machines):
                    left.remove(series)

    def once(
        self,
        task: str,
        series: Series,
        lab: LabState,
        control: Control,
        nodes: int,
        number: int,
        after: Callable[[], None] = nothing,
        machines: int | None = None,
    ) -> bool:
        """Run a series once and record the cost; return whether all of its runs have succeeded."""
        way = (task, series.name, nodes, control.round_trip_ms)
        if way in self.out:
            return False
        where = f"{task}, {nodes} nodes, {control.round_trip_ms:g} ms, {series.name}"
        try:
            run = self._run(task, series, lab, control, nodes, number)
            after()
        except DidNotWork as failure:
            self.problem(f"{where}: {failure}")
            self.out.add(way)
            self.runs = [
                run
                for run in self.runs
                if (run.task, run.series, run.nodes, run.round_trip_ms) != way
            ]
            return False
        self.runs.append(replace(run, machines=machines))
        kind = "warm-up" if number == 0 else f"run {number}"
        say(f"{where}: {kind}, {run.wall_s:.2f} s, {run.cpu_s:.2f} CPU s")
        return True

    def problem(self, text: str) -> None:
        """Record a failed measurement."""
        self.problems.append(text)
        say(f"NOT MEASURED {text}")

    def _run(
        self, task: str, series: Series, lab: LabState, control: Control, nodes: int, number: int
    ) -> Run:
        names = [node.name for node in lab.nodes]
        # Count in the last run only: a tool may cache data from its first run.
        counting = number == self.repeat
        seen = sessions.counted(lab, names) if counting else 0
        load, sent = os.getloadavg()[0], control.bytes()
        cost = self.cost(series, lab, control.prefix)
        sent = control.bytes() - sent
        # The second count includes its own session.
        seen = sessions.counted(lab, names) - len(names) - seen if counting else 0
        return Run(
            task=task,
            series=series.name,
            nodes=nodes,
            round_trip_ms=control.round_trip_ms,
            number=number,
            wall_s=cost.wall_s,
            cpu_s=cost.cpu_s,
            peak_mib=cost.peak_mib,
            sent_bytes=sent,
            sessions=seen if counting else None,
            load=load,
        )

    def cost(self, series: Series, lab: LabState, prefix: Sequence[str]) -> Cost:
        """Run a series once; return its cost.

        Raises:
            DidNotWork: wrong exit status or output, or timeout.
        """
        log = self.folder / "output"
        environment = {"LOCKSTEP_LAB": lab.name, "PYTHONPATH": str(ROOT), **series.environment}
        with log.open("w", encoding="utf-8") as output:
            try:
                cost = meter.cost(
                    series.argv,
                    self.folder / "cost.json",
                    prefix,
                    environment,
                    WITHIN_S,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            except subprocess.TimeoutExpired as late:
                raise DidNotWork(f"not finished after {WITHIN_S:g} s") from late
        text = log.read_text(encoding="utf-8", errors="replace")
        if cost.status not in series.statuses or not re.search(series.pattern, text):
            raise DidNotWork(f"exit {cost.status}: ...{text.strip()[-TAIL:]}")
        return cost
