"""Builds commands with which the controller reads the workers, and parses their output.

The commands run srun, which starts a job step, or clush, as configured on the controller. Both pass
their standard input on to all nodes (``ship.for_many``). The program that takes fingerprints is
longer than an argument may be, and ssh joins all words of a command to one argument of a shell.
The options are those of sinfo(1), squeue(1) and srun(1) of Slurm 24.11, systemd-run(1) of systemd
257, and clush(1) of ClusterShell 1.9.3. clush uses the gateways in topology.conf(5), if it exists.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from lockstep.probe.parts import MARKER
from lockstep.probe.ship import READS
from lockstep.report import fold
from lockstep.spec.names import expand

SLURM = "--through-slurm="
"""Value of ``Share.through``, optionally followed by a job ID; without one, idle nodes are used."""
CLUSH = "--through-clush"
PROBE_S = 60
"""Seconds for one node, including its connection. The probe itself stops after 25 s."""
KILL_S = 10
BEGIN_S = 10
"""Seconds within which Slurm must start the step. Nodes that stay busy are read directly."""
OTHERS_S = 30
"""Seconds that the other nodes of a step may still take once the first node has finished."""
STEP_S = 90
"""Seconds for the whole step. srun also waits for a slurmd that has just died."""
CLUSH_CONNECT_S = 10
CLUSH_S = 300
"""Seconds to read all nodes. clush reads 64 nodes at a time (``fanout`` in clush.conf(5))."""


@dataclass(frozen=True)
class Place:
    """Nodes on which one step can run, and the srun options for it."""

    nodes: tuple[str, ...]
    options: tuple[str, ...]


def where(job: str) -> str:
    """Return the command that lists the nodes of a job or, without a job, all nodes by state."""
    if job:
        return f"squeue --noheader --states=RUNNING --format=%N --jobs={job}"
    # --states=IDLE would also list drained nodes.
    return "sinfo --noheader --responding --format='%t %R %N'"


def places(said: Iterable[str], job: str, wanted: Collection[str]) -> list[Place]:
    """Parse the output of ``where`` into places; each node is in at most one of them."""
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


def step(place: Place) -> str:
    """Return the srun command that reads the nodes of a place in a job step.

    Job limits (devices, CPUs, mounts) apply inside the step, so systemd starts the probe outside.
    """
    count = len(place.nodes)
    probe = (
        "exec systemd-run --quiet --pipe --wait --collect --slice=user.slice "
        f"--description='lockstep check' --property=RuntimeMaxSec={PROBE_S} "
        f'-- {READS} "$SLURMD_NODENAME"'
    )
    return shlex.join(
        [
            *("timeout", f"--kill-after={KILL_S}", str(STEP_S)),
            *("srun", *place.options, f"--nodelist={fold(place.nodes)}", f"--immediate={BEGIN_S}"),
            *(f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--cpus-per-task=1"),
            *("--gres=none", "--job-name=lockstep-check", "--time=5", "--chdir=/", "--input=all"),
            # If a node fails or hangs, only the time limit ends the step on the others.
            *("--kill-on-bad-exit=0", f"--wait={OTHERS_S}", "--propagate=NONE", "--mpi=none"),
            *("--quiet", "sh", "-c", probe),
        ]
    )


def clush(nodes: Iterable[str]) -> str:
    """Return the clush command that root runs on the controller to read these nodes."""
    # clush.conf decides which user logs in; only root can take all readings.
    root = '$([ "$(id -u)" = 0 ] || echo sudo -n -H)'
    return shlex.join(
        [
            *("timeout", f"--kill-after={KILL_S}", str(CLUSH_S)),
            *("clush", "--quiet", "--color=never"),
            *(f"--connect_timeout={CLUSH_CONNECT_S}", f"--command_timeout={PROBE_S}"),
            *("-w", fold(nodes), "--", f'{root} {READS} "$(uname -n)"'),
        ]
    )


def own_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that nodes print about themselves, without clush's label.

    A node that claims another node's name must not be mistaken for that node.
    """
    for line in lines:
        label, _, said = line.partition(": ")
        if said.split(" ", 2)[:2] == [MARKER, label]:
            yield said
