"""Workers with a processor each, as machines have, where all of a lab would share the host's."""

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
    """Have workers planned as machines of one core: none is set aside, for it may be another's."""
    worker = lab.hardware["worker"].model_copy(update=ONE_CORE)
    state.save(lab.model_copy(update={"hardware": {**lab.hardware, "worker": worker}}))


def give(nodes: Sequence[Node]) -> int:
    """Give each machine a processor, from the last one on: the first has the host's own work.

    What a machine starts later stays there, unless it asks for another. The head and the deploying
    side may use all. Returns how many threads were elsewhere.

    Raises:
        BenchmarkError: there are more machines than processors, one is off, or will not stay.
    """
    count = 0
    free = sorted(os.sched_getaffinity(0), reverse=True)
    if len(nodes) > len(free):
        raise BenchmarkError(f"{len(nodes)} workers with a processor each: here are {len(free)}")
    for node, processor in zip(nodes, free, strict=False):
        if node.process is None:
            raise BenchmarkError(f"{node.name} is off")
        # Again until nothing is left: who was not there yet may have started one meanwhile.
        for _ in range(TRIES):
            moved = _moved(node.process.pid, processor)
            count += moved
            if not moved:
                break
        else:
            raise BenchmarkError(f"{node.name} does not stay on processor {processor}")
    return count


def _moved(keeper: int, processor: int) -> int:
    """Move all threads below a process; return how many were elsewhere.

    Raises:
        BenchmarkError: one may not go there.
    """
    count = 0
    for pid in (keeper, *below(keeper)):
        for thread in _threads(pid):
            try:
                if os.sched_getaffinity(thread) != {processor}:
                    os.sched_setaffinity(thread, {processor})
                    count += 1
            except ProcessLookupError:
                continue  # it has ended
            except OSError as error:
                raise BenchmarkError(f"process {pid} on processor {processor}: {error}") from error
    return count


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(Path(f"/proc/{pid}/task"))]
    except OSError:  # it has ended
        return []
