"""Checks clusters of several sizes and compares the cost with the documented limits.

    python -m benchmarks.compare [--nodes 200 1000 2000] [--json FILE]

Each figure is the cost of one ``lockstep check --records FILE --earlier FILE``, which reads both
files, applies all rules and writes the text. The share of the rules is the difference to a check of
the same files with one rule that reads no record. The largest size is checked twice more, with one
node in a hundred and with every node differing. Exit status: 0 within the limits for 2,000 nodes,
1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.command_line import new_file, whole
from benchmarks.compare.cluster import Drift, Files, written
from lockstep.checks.catalogue import all_rules
from lockstep.report import ExitStatus

PROMISED_NODES, MOST_CPU_S, MOST_MIB = 2000, 10.0, 1024.0
LOOKS_INTO_NONE = "node.reachable"
"""A rule that only needs to know whether a record exists."""


@dataclass(frozen=True)
class Cost:
    """Cost of one check."""

    case: str
    nodes: int
    cpu_s: float
    rules_s: float
    """CPU seconds of all rules."""
    peak_mib: float
    lines: int

    @property
    def kept(self) -> bool:
        """Whether the cost is within the limits, which apply to one size and below."""
        larger = self.nodes > PROMISED_NODES
        return larger or (self.rules_s <= MOST_CPU_S and self.peak_mib <= MOST_MIB)


def healthy(number: int, readings: dict[str, Any]) -> None:
    """Do not change the record."""


def one_of_a_hundred(number: int, readings: dict[str, Any]) -> None:
    """Limit the power of a GPU on one node in a hundred."""
    if number % 100 == 1:
        readings["gpu.power.enforced_w"]["value"]["gpu3"] = 350.0


def each_otherwise(number: int, readings: dict[str, Any]) -> None:
    """Give each node a different BIOS version."""
    readings["platform"]["value"]["bios_version"] = f"2.{number}"


def checked(case: str, nodes: int, files: Files) -> Cost:
    """Return the cost of one check.

    Raises:
        ValueError: the check failed.
    """
    cpu_s, peak_mib, lines = _run(case, files)
    without, _, _ = _run(case, files, "--rule", LOOKS_INTO_NONE)
    return Cost(case, nodes, cpu_s, cpu_s - without, peak_mib, lines)


def _run(case: str, files: Files, *more: str) -> tuple[float, float, int]:
    """Return CPU seconds, peak MiB and lines of one check."""
    words = ["check", files.inventory, "--records", files.now, "--earlier", files.earlier, *more]
    argv = [sys.executable, "-m", "lockstep", *map(str, words)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = len(process.stdout.readlines())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (ExitStatus.CONSISTENT, ExitStatus.DIFFERS):
        raise ValueError(f"{case}, {files.inventory}: exit {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, lines


def measured(case: str, nodes: int, drift: Drift) -> Cost:
    """Return the cost of a check of a new cluster."""
    with tempfile.TemporaryDirectory() as folder:
        return checked(case, nodes, written(Path(folder), nodes, drift))


def table(costs: list[Cost]) -> str:
    """Return the costs as Markdown; growth is the cost per node relative to the first size."""
    rows = [
        f"{len(all_rules())} rules; limits for {PROMISED_NODES} nodes: "
        f"{MOST_CPU_S:g} CPU seconds for the rules, {MOST_MIB:g} MiB",
        "",
        "| nodes | case | CPU s | rules, CPU s | ms per node | growth | peak MiB | lines |",
        "|---|---|---|---|---|---|---|---|",
    ]
    first = costs[0].cpu_s / costs[0].nodes
    for one in costs:
        each = one.cpu_s / one.nodes
        rows.append(
            f"| {one.nodes} | {one.case} | {one.cpu_s:.1f} | {one.rules_s:.1f} | {1000 * each:.1f} "
            f"| {each / first:.2f} | {one.peak_mib:.0f} | {one.lines} |"
        )
    return "\n".join(rows) + "\n"


def main(words: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare")
    parser.add_argument("--nodes", type=whole(2), nargs="+", default=[200, 1000, PROMISED_NODES])
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write the figures as JSON")
    asked = parser.parse_args(words)
    costs = [measured("healthy", nodes, healthy) for nodes in sorted(asked.nodes)]
    most = max(asked.nodes)
    costs.append(measured("one in a hundred differs", most, one_of_a_hundred))
    costs.append(measured("every node differs", most, each_otherwise))
    sys.stdout.write(table(costs))
    if asked.json:
        content = json.dumps([asdict(one) for one in costs], indent=1)
        asked.json.write_text(content + "\n", encoding="utf-8")
    return int(not all(one.kept for one in costs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
