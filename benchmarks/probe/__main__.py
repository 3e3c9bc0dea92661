"""Reads one node several times and compares the cost with the probe's limits.

    python -m benchmarks.probe INVENTORY NODE [--repeat N] -- WORDS...

WORDS start a root shell on the node: ``ssh worker1 sudo``, or ``python -m lab run worker1 --``.
Exit status: 0 within the limits, 1 otherwise.
"""

from __future__ import annotations

import argparse
import re
import shlex
import statistics
import subprocess
import sys
from dataclasses import dataclass

from benchmarks.command_line import node_of, whole
from lockstep.fleet.request import request
from lockstep.probe.parse import parse
from lockstep.probe.record import Record
from lockstep.probe.ship import with_input

MOST_S, MOST_CPU_S = 5.0, 1.0
TIMED = re.compile(r"^COST (\d+\.\d+) (\d+\.\d+) (\d+\.\d+)$", re.MULTILINE)
LONGEST = 5


@dataclass(frozen=True)
class Cost:
    """Cost of one reading."""

    wall_s: float
    cpu_s: float
    record: Record


def measured(way: list[str], line: str, rows: list[str]) -> Cost:
    """Return the cost of one reading, measured by the node's shell.

    Args:
        way: what starts a root shell on the node.
        line: the command that reads the node.
        rows: its standard input.

    Raises:
        ValueError: the node returned no record or no times.
    """
    timed = f"TIMEFORMAT='COST %3R %3U %3S'; time {{ {line}; }}"
    # ssh(1) joins its arguments with spaces, and the node's shell splits them.
    last = [shlex.quote(timed)] if way[:1] == ["ssh"] else [timed]
    done = subprocess.run(
        [*way, "bash", "-c", *last],
        input="".join(f"{row}\n" for row in rows),
        capture_output=True,
        text=True,
        check=False,
    )
    times = TIMED.search(done.stderr.replace("\r", ""))
    if times is None:
        raise ValueError(f"exit status {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
    wall, user, system = map(float, times.groups())
    return Cost(wall, user + system, parse(done.stdout))


def table(costs: list[Cost]) -> str:
    """Return the costs as Markdown, and the slowest commands of the last reading."""
    walls, cpus = [one.wall_s for one in costs], [one.cpu_s for one in costs]
    commands = costs[-1].record.commands
    rows = [
        "| | median | maximum | limit |",
        "|---|---|---|---|",
        f"| seconds | {statistics.median(walls):.2f} | {max(walls):.2f} | {MOST_S:g} |",
        f"| CPU seconds | {statistics.median(cpus):.2f} | {max(cpus):.2f} | {MOST_CPU_S:g} |",
        "",
        f"{len(commands)} commands; the slowest:",
        "",
    ]
    slowest = sorted(commands, key=lambda one: -one.duration_s)[:LONGEST]
    rows += [f"- {one.duration_s:.2f} s `{' '.join(one.argv)[:60]}`" for one in slowest]
    return "\n".join(rows) + "\n"


def main(words: list[str]) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.probe")
    parser.add_argument("inventory")
    parser.add_argument("node")
    parser.add_argument("--repeat", type=whole(1), default=5)
    parser.add_argument("way", nargs="+", help="command that starts a root shell on the node")
    asked = parser.parse_args(words)
    node = node_of(parser, asked)
    line, rows = with_input(request(node))
    try:
        costs = [measured(asked.way, line, rows) for _ in range(asked.repeat)]
    except ValueError as failure:
        sys.exit(f"{asked.node} could not be read with {shlex.join(asked.way)}: {failure}")
    sys.stdout.write(table(costs))
    return int(any(one.wall_s > MOST_S or one.cpu_s > MOST_CPU_S for one in costs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
