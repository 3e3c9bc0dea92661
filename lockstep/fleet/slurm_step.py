"""The probe as a step of Slurm: what the controller is asked to run, and what comes back.

Options: sinfo(1), squeue(1), srun(1) of Slurm 24.11, systemd-run(1) of systemd 257.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from lockstep.probe.ship import Request, for_many
from lockstep.report import fold
from lockstep.spec.names import expand

OPTION = "--through-slurm="
"""Before the job."""
BEGIN_S = 10
"""For Slurm to find the place: what is busy now is read another way."""
PROBE_S = 60
"""For one node; the probe itself gives up after 25 s."""
OTHERS_S = 30
"""For the others after the first one."""
STEP_S = 90
"""For all of it. srun waits for the slurmd of each node, also for one that has just died."""
KILL_S = 10


@dataclass(frozen=True)
class Place:
    """Where one step can run."""

    nodes: tuple[str, ...]
    options: tuple[str, ...]


def where(job: str) -> str:
    """Return the command that says where a step can run: in a job, or "": on what is idle."""
    if job:
        return f"squeue --noheader --states=RUNNING --format=%N --jobs={job}"
    # --states=IDLE would list what is drained as well.
    return "sinfo --noheader --responding --format='%t %R %N'"


def places(said: Iterable[str], job: str, wanted: Collection[str]) -> list[Place]:
    """Return the places in the answer, each node once, also where it is in several partitions."""
    left = set(wanted)
    found = []
    for line in filter(str.strip, said):
        *of_idle, names = line.split()
        nodes = tuple(name for name in expand(names) if name in left)
        if job:
            options = [f"--jobid={job}", "--overlap"]
        elif of_idle[:1] == ["idle"]:
            options = [f"--partition={of_idle[1]}"]
        else:
            continue
        if nodes:
            left.difference_update(nodes)
            found.append(Place(nodes, tuple(options)))
    return found


def step(place: Place, requests: Mapping[str, Request]) -> str:
    """Return the command that reads the nodes of a place.

    In the step itself jobs' limits hold: devices, CPUs, mounts. systemd starts the probe outside.

    Raises:
        ValueError: the command is too long.
    """
    program, asked = for_many(requests)
    count = len(place.nodes)
    probe = (
        "exec systemd-run --quiet --pipe --wait --collect --slice=user.slice "
        f"--description='lockstep check' --property=RuntimeMaxSec={PROBE_S} "
        '-- python3 -c "$0" "$1" "$SLURMD_NODENAME"'
    )
    words = [
        *("timeout", f"--kill-after={KILL_S}", str(STEP_S)),
        *("srun", *place.options, f"--nodelist={fold(place.nodes)}", f"--immediate={BEGIN_S}"),
        *(f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--cpus-per-task=1"),
        *("--gres=none", "--job-name=lockstep-check", "--time=5", "--chdir=/", "--input=none"),
        # One node that fails or hangs ends the others' reading in no other way than by the time.
        *("--kill-on-bad-exit=0", f"--wait={OTHERS_S}", "--propagate=NONE", "--mpi=none"),
        *("--quiet", "sh", "-c", probe, program, asked),
    ]
    return shlex.join(words)
