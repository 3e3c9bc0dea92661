"""The cases of the benchmark, and the table of results; without processes or a lab."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Neighbour(StrEnum):
    """Placement of a busy process during a job."""

    NONE = "none"
    HELD = "held"  # an ordinary service, which the CPU set keeps off the job's CPU
    LOOSE = "loose"  # a service outside the CPU set, on the job's CPU


@dataclass(frozen=True)
class Case:
    """A program with its conditions."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    neighbour: Neighbour = Neighbour.NONE


SMALL_LINES = Case("4 KiB pages, every line", "chase", ("small", "lines"))
HUGE_LINES = Case("2 MiB pages, every line", "chase", ("huge", "lines"))
SMALL_PAGES = Case("4 KiB pages, a line per 4 KiB", "chase", ("small", "pages"))
HUGE_PAGES = Case("2 MiB pages, a line per 4 KiB", "chase", ("huge", "pages"))
LATENCY_ALONE = Case("latency, alone", "jitter")
MEMORY_HELD = Case("memory, neighbour held", "chase", ("small", "lines"), Neighbour.HELD)
LATENCY_HELD = Case("latency, neighbour held", "jitter", (), Neighbour.HELD)
MEMORY_LOOSE = Case("memory, neighbour loose", "chase", ("small", "lines"), Neighbour.LOOSE)
LATENCY_LOOSE = Case("latency, neighbour loose", "jitter", (), Neighbour.LOOSE)
# In the order of a round, grouped by neighbour.
CASES = (
    *(SMALL_LINES, HUGE_LINES, SMALL_PAGES, HUGE_PAGES, LATENCY_ALONE),
    *(MEMORY_HELD, LATENCY_HELD),
    *(MEMORY_LOOSE, LATENCY_LOOSE),
)


@dataclass(frozen=True)
class Measure:
    """One figure of a program, compared between cases; the first case is the baseline."""

    title: str
    field: str
    cases: tuple[Case, ...]


_LINES = (SMALL_LINES, HUGE_LINES)
_PAGES = (SMALL_PAGES, HUGE_PAGES)
_MEMORY = (SMALL_LINES, MEMORY_HELD, MEMORY_LOOSE)
_LATENCY = (LATENCY_ALONE, LATENCY_HELD, LATENCY_LOOSE)
MEASURES = (
    Measure("first touch, ms", "touch_ms", _LINES),
    Measure("page faults of the first touch", "touch_faults", _LINES),
    Measure("page tables, KiB", "page_table_kib", _LINES),
    Measure("ns per access", "ns_median", _LINES),
    Measure("ns per access", "ns_median", _PAGES),
    Measure("ns per access", "ns_median", _MEMORY),
    Measure("kept off the CPU by the node's scheduler, %", "off_cpu_percent", _LATENCY),
    Measure("lost in gaps above the threshold, %", "lost_percent", _LATENCY),
    Measure("longest gap, µs", "longest_gap_us", _LATENCY),
    Measure("gap, 99.9th percentile (power of two), µs", "gap_p999_us", _LATENCY),
    Measure("wake-up late, median, µs", "late_median_us", _LATENCY),
    Measure("wake-up late, 99th percentile, µs", "late_p99_us", _LATENCY),
    Measure("wake-up late, longest, µs", "late_max_us", _LATENCY),
)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    measure: str
    case: str
    median: float
    lowest: float
    highest: float
    ratio: float | None
    """Ratio of medians to the first case of the measure; None if that is 0."""
    ratio_lowest: float | None
    """Ratio of the lowest values, which a shared host disturbs less."""


def order(round_number: int) -> tuple[Case, ...]:
    """Return the cases of a round; every second round is reversed, to cancel drift."""
    return CASES if round_number % 2 == 0 else CASES[::-1]


def rows(samples: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Summarise samples, each with "case" and the program's figures.

    Raises:
        ValueError: a case has no sample.
    """
    taken = list(samples)
    found = []
    for measure in MEASURES:
        base: tuple[float, float] | None = None
        for case in measure.cases:
            values = [float(one[measure.field]) for one in taken if one["case"] == case.name]
            if not values:
                raise ValueError(f"no sample of case {case.name!r}")
            median, lowest = statistics.median(values), min(values)
            base = base or (median, lowest)
            found.append(
                Row(
                    measure.title,
                    case.name,
                    median,
                    lowest,
                    max(values),
                    median / base[0] if base[0] else None,
                    lowest / base[1] if base[1] else None,
                )
            )
    return found


def figure(value: float) -> str:
    """Return a number with three significant digits, without exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 0.001 else "0"


def table(summary: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        "| measured | case | median | lowest | highest | ratio | of lowest |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in summary:
        numbers = [figure(number) for number in (row.median, row.lowest, row.highest)]
        numbers += ["-" if r is None else f"{figure(r)} x" for r in (row.ratio, row.ratio_lowest)]
        lines.append(f"| {row.measure} | {row.case} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def document(facts: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> str:
    """Return the JSON document: facts about the node, all samples and the summary."""
    content = {**facts, "samples": samples, "summary": [asdict(row) for row in rows(samples)]}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def printed(output: str) -> dict[str, Any]:
    """Return the last line of a program's output that is JSON.

    Raises:
        ValueError: no line is JSON.
    """
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            found: dict[str, Any] = json.loads(line)
            return found
    raise ValueError("no line of JSON")


def cpu_list(text: str) -> frozenset[int]:
    """Return the CPUs in a list of the kernel ("0,2-3")."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


@dataclass(frozen=True)
class Process:
    """A process: its allowed CPUs and its CPU time."""

    pid: int
    cpus: frozenset[int]
    last_cpu: int
    ticks: int


def process(status: str, stat: str) -> Process:
    """Parse /proc/PID/status and /proc/PID/stat (proc(5))."""
    keys = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    fields = stat.rpartition(")")[2].split()  # from field 3 on
    return Process(
        pid=int(keys["Pid"]),
        cpus=cpu_list(keys["Cpus_allowed_list"]),
        last_cpu=int(fields[39 - 3]),
        ticks=int(fields[14 - 3]) + int(fields[15 - 3]),
    )


def misplaced(kind: Neighbour, before: Process, after: Process, cpu: int) -> str | None:
    """Return why the neighbour did not run as the case requires; None if it did."""
    if before.pid != after.pid:
        return f"it was restarted (process {before.pid}, then {after.pid})"
    if after.ticks <= before.ticks:
        return "it used no CPU time"
    for seen in (before, after):
        shown = ",".join(map(str, sorted(seen.cpus)))
        if kind is Neighbour.LOOSE and seen.cpus != {cpu}:
            return f"it may run on CPUs {shown}; expected only {cpu}, the job's CPU"
        if kind is Neighbour.HELD and cpu in seen.cpus:
            return f"it may run on CPUs {shown}; expected without {cpu}, the job's CPU"
    return None


def problems(node: str, facts: Mapping[str, str], mib: int) -> list[str]:
    """Return missing requirements of the node, each with the next step."""
    found = []
    if not facts.get("tcc"):
        found.append(f"{node}: tcc is missing; run: apt-get install tcc")
    if not facts.get("header"):
        found.append(f"{node}: /usr/include/stdio.h is missing; run: apt-get install libc6-dev")
    if not facts.get("systemd_run"):
        found.append(f"{node}: systemd-run is missing; it starts the neighbour process")
    free, needed = int(facts.get("huge_free") or 0), mib // 2
    if free < needed:
        found.append(
            f"{node}: {free} free huge pages of 2 MiB; {needed} are needed for {mib} MiB. Deploy a "
            "hardware class with hugepages, stop programs that use them, or reduce --mib"
        )
    return found
