"""Measures what each function that Lockstep replaces in pyinfra saves of a run.

    python -m benchmarks.replacements [--nodes 50] [--repeat 7]

A run has the operations of a worker's deploy with nothing to do, on hosts that are answered in this
process: no ssh, and no time of nodes. All series run in turn. The CPU time is the least of a
series: the machine's other load only adds to it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.command_line import end_as_interrupted, whole
from benchmarks.speed.paths import ROOT
from lockstep.pyinfra_internals import registry

HERE = Path(__file__).parent
EVERYTHING = "LOCKSTEP_FAST=0"
GARBAGE = "collection of garbage"
START = f"""\
import sys
from lockstep import fast_path
from lockstep.pyinfra_internals import registry

without = sys.argv.pop(1)
registry.DEPLOY = tuple(one for one in registry.DEPLOY if one.replacement != without)
if without == {GARBAGE!r}:
    fast_path.collect_seldom = lambda: None
from pyinfra_cli.main import main
main()
"""


def run(folder: Path, nodes: int, without: str) -> float:
    """Run the deploy once; return its CPU seconds.

    Raises:
        SystemExit: it failed.
    """
    words = ["-y", str(HERE / "inventory.py"), str(HERE / "deploy.py")]
    environment = {"PYTHONPATH": f"{folder}:{ROOT}", "NODES": str(nodes), "NO_COLOR": "1"}
    environment["LOCKSTEP_FAST"] = "0" if without == EVERYTHING else "1"
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", START, without, *words],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status:
            output.seek(0)
            sys.exit(f"exit {process.returncode}: {output.read()[-2000:]}")
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit status."""
    parser = argparse.ArgumentParser(prog="benchmarks.replacements")
    parser.add_argument("--nodes", type=whole(1), default=50, help="number of workers")
    parser.add_argument("--repeat", type=whole(1), default=7, help="runs after the warm-up")
    asked = parser.parse_args(argv)
    series = ["", *(one.replacement for one in registry.DEPLOY), GARBAGE, EVERYTHING]
    used: dict[str, list[float]] = {without: [] for without in series}
    with tempfile.TemporaryDirectory(prefix="benchmark-replacements-") as name:
        folder = Path(name)
        metadata = folder / "answering-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: answering\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(
            "[pyinfra.connectors]\nanswering = benchmarks.replacements.answering:Answering\n"
        )
        for number in range(asked.repeat + 1):
            for without in series if number % 2 else reversed(series):
                cpu_s = run(folder, asked.nodes, without)
                if number:
                    used[without].append(cpu_s)
    least = min(used[""])
    print(f"{asked.nodes} workers: {least:.2f} CPU s with all replacements\n")
    print("| without | CPU s | share of the run that it saves |\n|---|---:|---:|")
    for without in series[1:]:
        cpu_s = min(used[without])
        print(f"| {without} | {cpu_s:.2f} | {100 * (cpu_s - least) / cpu_s:.0f} % |")
    return 0


if __name__ == "__main__":
    end_as_interrupted()
    sys.exit(main())
