"""Measures reruns, checks, repairs and deploys beside the peers, on a lab that it makes.

    python -m benchmarks.speed [--nodes 2,10] [--round-trips 0,2,20] [--tasks rerun,check]
                               [--names 50] [--repeat 3] [--without ansible] [--json FILE] [--keep]
                               [--processor-each]

Needs root, as the lab does. Prints one table; removes the lab. How to read it: docs/benchmarks.md.
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
from lab.lifecycle import MOST_WORKERS
from lockstep.fast import inventory_name

EXIT_FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; return the exit status: 0 when everything could be measured, 1 when not."""
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
            # Whoever kept it did not keep it for this.
            keep |= there_before and failure.lab == asked.lab
        except (BenchmarkError, LabError) as failure:
            bench.problem(str(failure))
        except KeyboardInterrupt:
            bench.problem("interrupted: what would have followed")
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
    """Return what cannot be asked for together."""
    here = len(os.sched_getaffinity(0))
    if inventory_name("a") == "a":
        return "without our connector (LOCKSTEP_FAST=0, no `make setup`) plain pyinfra is measured"
    if asked.names and (len(asked.nodes) > 1 or min(asked.names) <= asked.nodes[0]):
        return "--names takes one number of --nodes, and more names than that"
    if asked.names and not set(asked.tasks) & set(tasks.UNDER_NAMES):
        return f"--names is for --tasks {','.join(tasks.UNDER_NAMES)}"
    if asked.processor_each and DEPLOY not in asked.tasks:
        return "--processor-each is for --tasks deploy"
    if asked.processor_each and max(asked.nodes) > here:
        return f"--processor-each: here are {here} processors"
    if max(asked.nodes) > MOST_WORKERS:
        return f"--nodes: a lab has at most {MOST_WORKERS} workers"
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
    # Machines that are there, and watched, would take their share.
    if cluster and not asked.keep:
        tasks.remove(asked.lab)
    elif not cluster and state.path_of(asked.lab).exists():
        say(f"lab {asked.lab} is up: what its machines do shows in the deploys")
    with tasks.unwatched(cluster) if cluster and asked.keep else nullcontext():
        for workers in sorted(asked.nodes):
            for round_trip_ms in asked.round_trips:
                lab, each = f"{asked.lab}-fresh", asked.processor_each
                tasks.deploy(bench, lab, workers, found, round_trip_ms, processor_each=each)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.speed")
    parser.add_argument("--lab", default="bench", help="name of the lab that is made")
    parser.add_argument(
        "--nodes", type=several(whole(1)), default=[1, 2, 10, 50], help="workers: 1,2,10,50"
    )
    parser.add_argument(
        "--names",
        type=several(whole(1)),
        default=[],
        help="as well under so many names: 50 (with --nodes 2)",
    )
    parser.add_argument(
        "--round-trips",
        type=several(milliseconds),
        default=[0.0, 2.0, 20.0],
        help="added, in ms: 0,2,20",
    )
    known = [*tasks.ON_A_LAB, DEPLOY]
    parser.add_argument("--tasks", type=several(one_of(known)), default=known, help=",".join(known))
    parser.add_argument(
        "--processor-each",
        action="store_true",
        help="deploy only: each worker has a processor of its own; 2 workers on 2",
    )
    parser.add_argument("--repeat", type=whole(1), default=3, help="runs after the warm-up")
    parser.add_argument(
        "--without",
        type=several(one_of(series.NAMES)),
        default=[],
        metavar="SERIES",
        help=f"leave out some of: {', '.join(series.NAMES)}",
    )
    parser.add_argument(
        "--json", type=new_file, metavar="FILE", help="write every run for programs"
    )
    parser.add_argument("--keep", action="store_true", help="leave the lab up")
    return parser


if __name__ == "__main__":
    end_as_interrupted()
    say("other work on this machine shows in every wall time")
    sys.exit(main())
