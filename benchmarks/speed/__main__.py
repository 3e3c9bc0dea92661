"""Compares reruns, checks, repairs and deploys with other tools in a lab that it creates.

    python -m benchmarks.speed [--nodes 2,10] [--round-trips 0,2,20] [--tasks rerun,check]
                               [--names 50] [--repeat 3] [--without ansible] [--json FILE] [--keep]
                               [--processor-each]

Needs root, like the lab. Prints a table and removes the lab. docs/benchmarks.md explains the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from benchmarks.command_line import (
    end_as_interrupted,
    milliseconds,
    new_file,
    one_of,
    several,
    whole,
)
from benchmarks.speed import figures, peers, promises, series, sessions, tasks
from benchmarks.speed.bench import Bench, say
from benchmarks.speed.errors import BenchmarkError
from benchmarks.speed.machine import machine
from benchmarks.speed.network import control
from benchmarks.speed.peers import Peers
from benchmarks.speed.tasks import DEPLOY, Cluster, NoLabError
from lab import state
from lab.errors import LabError
from lab.wishes import MOST_WORKERS
from lockstep.fast_path import inventory_name, wanted

EXIT_FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 0 if everything was measured, else 1."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    asked = parser.parse_args(words)
    if wrong := _wrong(asked):
        parser.error(wrong)
    there_before, keep = state.path_of(asked.lab).exists(), asked.keep or asked.tasks == [DEPLOY]
    with tempfile.TemporaryDirectory(prefix="benchmark-speed-") as folder:
        bench = Bench(Path(folder), asked.repeat, without=frozenset(asked.without))
        installed = peers.ensure()
        if isinstance(installed, str):
            bench.problem(f"Ansible, mitogen, testinfra: not installed: {installed}")
        found = installed if isinstance(installed, Peers) else None
        try:
            _measure(bench, asked, found)
        except NoLabError as failure:
            bench.problem(str(failure))
            # Do not use an existing lab, which was kept for another purpose.
            keep |= there_before and failure.lab == asked.lab
        except (BenchmarkError, LabError) as failure:
            bench.problem(str(failure))
        except KeyboardInterrupt:
            bench.problem("interrupted: the remaining measurements")
        finally:
            if not keep:
                _remove(bench, asked.lab)
        summary = figures.rows(bench.runs)
        about = {**machine(found), "command": shlex.join(["python", "-m", __package__, *words])}
        if asked.json:
            runs = [asdict(run) for run in bench.runs]
            rows = [asdict(row) for row in summary]
            content = {**about, "problems": bench.problems, "runs": runs, "medians": rows}
            asked.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"`{about['command']}`\n\n{figures.table(summary)}\n{promises.table(summary)}")
        print("".join(f"{line}\n" for line in figures.under_names(bench.runs)), end="")
        for problem in bench.problems:
            print(f"NOT MEASURED {problem}")
    return EXIT_FAILED if bench.problems else 0


def _wrong(asked: argparse.Namespace) -> str | None:
    """Return the error in a combination of options; None if it is valid."""
    here = len(os.sched_getaffinity(0))
    if not wanted() or inventory_name("a") == "a":
        return "Lockstep's connector is off; unset LOCKSTEP_FAST and run `make setup`"
    if asked.names and (len(asked.nodes) > 1 or min(asked.names) <= asked.nodes[0]):
        return "--names needs a single number in --nodes, and must be greater than it"
    if asked.names and not set(asked.tasks) & set(tasks.UNDER_NAMES):
        return f"--names works only with --tasks {','.join(tasks.UNDER_NAMES)}"
    if asked.processor_each and DEPLOY not in asked.tasks:
        return "--processor-each works only with --tasks deploy"
    if asked.processor_each and max(asked.nodes) > here:
        return f"--processor-each: this host has only {here} processors"
    if max(asked.nodes) > MOST_WORKERS:
        return f"--nodes: expected at most {MOST_WORKERS} workers"
    return None


def _remove(bench: Bench, lab: str) -> None:
    try:
        tasks.remove(lab)
    except BenchmarkError as failure:
        bench.problem(str(failure))


def _measure(bench: Bench, asked: argparse.Namespace, found: Peers | None) -> None:
    on_lab = [name for name in asked.tasks if name in tasks.ON_A_LAB]
    cluster = None
    for workers in sorted(asked.nodes) if on_lab else ():
        cluster = Cluster.up(asked.lab, workers, bench.folder, found)
        sessions.note(cluster.lab, [node.name for node in cluster.lab.nodes])
        for round_trip_ms in asked.round_trips:
            with control(cluster.lab, round_trip_ms) as here:
                for name in on_lab:
                    tasks.ON_A_LAB[name](bench, cluster, here)
                for count in asked.names:
                    with cluster.named(count, bench.folder) as many:
                        for name in (one for one in on_lab if one in tasks.UNDER_NAMES):
                            tasks.UNDER_NAMES[name](bench, many, here)
    if DEPLOY not in asked.tasks:
        return
    # Running machines and their monitoring use processor time as well.
    if cluster and not asked.keep:
        tasks.remove(asked.lab)
    elif not cluster and state.path_of(asked.lab).exists():
        say(f"lab {asked.lab} is up: its load affects the measured deploys")
    with tasks.unwatched(cluster) if cluster and asked.keep else nullcontext():
        for workers in sorted(asked.nodes):
            for round_trip_ms in asked.round_trips:
                lab, each = f"{asked.lab}-fresh", asked.processor_each
                tasks.deploy(bench, lab, workers, found, round_trip_ms, processor_each=each)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.speed")
    parser.add_argument("--lab", default="bench", help="name of the lab to create")
    parser.add_argument(
        "--nodes", type=several(whole(1)), default=[1, 2, 10, 50], help="workers: 1,2,10,50"
    )
    parser.add_argument(
        "--names",
        type=several(whole(1)),
        default=[],
        help="also measure with this number of names, such as 50 (with --nodes 2)",
    )
    parser.add_argument(
        "--round-trips",
        type=several(milliseconds),
        default=[0.0, 2.0, 20.0],
        help="added round trip times in ms: 0,2,20",
    )
    known = [*tasks.ON_A_LAB, DEPLOY]
    parser.add_argument("--tasks", type=several(one_of(known)), default=known, help=",".join(known))
    parser.add_argument(
        "--processor-each",
        action="store_true",
        help="deploy only: give each worker its own processor; 2 workers on 2",
    )
    parser.add_argument("--repeat", type=whole(1), default=3, help="runs after the warm-up")
    parser.add_argument(
        "--without",
        type=several(one_of(series.NAMES)),
        default=[],
        metavar="SERIES",
        help=f"leave out series: {', '.join(series.NAMES)}",
    )
    parser.add_argument("--json", type=new_file, metavar="FILE", help="write all runs as JSON")
    parser.add_argument("--keep", action="store_true", help="leave the lab up")
    return parser


if __name__ == "__main__":
    end_as_interrupted()
    say("other work on this machine affects all wall times")
    sys.exit(main())
