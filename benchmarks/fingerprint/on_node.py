"""Runs two commands in turn on a node with many files, and prints what each run costs.

The node runs this file with ``python3 -c``, so it must run on Python 3.9 and import only the
standard library. Standard input is a JSON object (``main``).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from types import FrameType
from typing import Any

ETC = "/etc"
FOLDER = f"{ETC}/lockstep-benchmark"
FILES_PER_FOLDER = 50
SERVICES = "/sys/fs/cgroup/system.slice"
LIMIT_S = 60


def add_files(most: int) -> int:
    """Fill /etc with files until it has ``most``; return how many were added."""
    missing = most - sum(len(files) for _, _, files in os.walk(ETC))
    for number in range(missing):
        folder = f"{FOLDER}/{number // FILES_PER_FOLDER}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{number}.conf", "w", encoding="utf-8") as file:
            # As long as most files of /etc are: a few lines to a few kilobytes.
            for line in range(10 + number % 50):
                file.write(f"setting-{line} = value {number} of 192.0.2.{line}\n")
    return max(missing, 0)


def occupied() -> dict[str, float]:
    """Return the CPU seconds used so far: children of this process, PID 1, and each service.

    Of PID 1, the first number of ``/proc/PID/schedstat`` counts, in nanoseconds (kernel
    documentation, scheduler/sched-stats.rst): this program may be in its control group. Of a
    service, its control group counts (``usage_usec`` in ``cpu.stat``, in microseconds;
    admin-guide/cgroup-v2.rst).
    """
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"probe": used.ru_utime + used.ru_stime}
    with open("/proc/1/schedstat", encoding="ascii") as file:
        found["PID 1"] = int(file.read().split()[0]) / 1e9
    for name in os.listdir(SERVICES):
        try:
            with open(f"{SERVICES}/{name}/cpu.stat", encoding="ascii") as file:
                rows = dict(line.split() for line in file)
        except (FileNotFoundError, NotADirectoryError):
            continue  # a file of the folder itself, or a service that has just ended
        found[name] = int(rows["usage_usec"]) / 1e6
    return found


def run(command: str, text: str) -> tuple[dict[str, float], str]:
    """Run a command; return the CPU seconds that each process or service used, and the output."""
    before = occupied()
    done = subprocess.run(
        ["sh", "-c", command],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    after = occupied()
    if done.returncode:
        said = (done.stderr or done.stdout or "no message")[-300:]
        sys.exit(f"the probe failed with exit status {done.returncode}: {said}")
    return {name: used - before.get(name, 0.0) for name, used in after.items()}, done.stdout


def end(number: int, frame: FrameType | None) -> None:
    """End the program, so that the files are removed."""
    raise SystemExit(128 + number)


def main() -> None:
    """Measure as standard input says.

    Its keys: ``files`` (files below /etc), ``repeat``, and ``commands``: name -> the command and
    its standard input. The result has the costs and the last output by name.
    """
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    if os.path.exists(FOLDER):
        sys.exit(f"{FOLDER} exists: remove it, and run again")
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in asked["commands"]}
    outputs = {}
    try:
        added = add_files(asked["files"])
        for number in range(asked["repeat"] + 1):
            for name, (command, text) in asked["commands"].items():
                cost, outputs[name] = run(command, text)
                if number:  # the first run fills the caches of the kernel
                    costs[name].append(cost)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    print(json.dumps({"added": added, "costs": costs, "outputs": outputs}))


if __name__ == "__main__":
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    main()
