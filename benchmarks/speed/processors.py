"""Gives each worker its own processor; normally all workers share the host's processors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed.errors import BenchmarkError
from benchmarks.speed.meter import below
from lab import state
from lab.state import LabState, Node

TRIES = 10
ONE_CORE = {"sockets": 1, "cores_per_socket": 1, "threads_per_core": 1, "numa_nodes": 1}


def plan_for_one(lab: LabState) -> None:
    """Plan workers as machines with one core, without housekeeping CPUs."""
    worker = lab.hardware["worker"].model_copy(update=ONE_CORE)
    state.save(lab.model_copy(update={"hardware": {**lab.hardware, "worker": worker}}))


def give(nodes: Sequence[Node]) -> int:
    """Give each machine a processor, starting with the last; the first is for the host.

    Later processes of a machine inherit its processor. The head and the control host may use all
    processors. Returns the number of threads that had to be moved.

    Raises:
        BenchmarkError: there are too few processors, a machine is off, or it cannot be pinned.
    """
    count = 0
    free = sorted(os.sched_getaffinity(0), reverse=True)
    if len(nodes) > len(free):
        raise BenchmarkError(f"{len(nodes)} workers, but only {len(free)} processors are free")
    for node, processor in zip(nodes, free, strict=False):
        if node.process is None:
            raise BenchmarkError(f"{node.name} is off")
        # Repeat until no thread is left: threads that were not pinned yet may have started others.
        for _ in range(TRIES):
            moved = _moved(node.process.pid, processor)
            count += moved
            if not moved:
                break
        else:
            raise BenchmarkError(f"{node.name} cannot be pinned to processor {processor}")
    return count


def _moved(keeper: int, processor: int) -> int:
    """Move all threads of a process tree; return the number of threads moved.

    Raises:
        BenchmarkError: a thread cannot be moved.
    """
    count = 0
    for pid in (keeper, *below(keeper)):
        for thread in _threads(pid):
            try:
                if os.sched_getaffinity(thread) != {processor}:
                    os.sched_setaffinity(thread, {processor})
                    count += 1
            except ProcessLookupError:
                continue  # the thread has ended
            except OSError as error:
                raise BenchmarkError(f"process {pid} on processor {processor}: {error}") from error
    return count


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(Path(f"/proc/{pid}/task"))]
    except OSError:  # the process has ended
        return []
