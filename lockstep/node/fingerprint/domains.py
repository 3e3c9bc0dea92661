"""The table of all domains."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.node.fingerprint.accounts import ACCOUNTS
from lockstep.node.fingerprint.containers import ENGINES
from lockstep.node.fingerprint.daemons import daemons_of
from lockstep.node.fingerprint.entry import Domain, Entry
from lockstep.node.fingerprint.files import FILES
from lockstep.node.fingerprint.firewall import FIREWALL
from lockstep.node.fingerprint.hardware import HARDWARE
from lockstep.node.fingerprint.kernel import KERNEL
from lockstep.node.fingerprint.listeners import LISTENERS
from lockstep.node.fingerprint.modules import MODULES, read_running_kernel
from lockstep.node.fingerprint.mounts import MOUNTS, read_running_mounts
from lockstep.node.fingerprint.network import NETWORK
from lockstep.node.fingerprint.packages import PACKAGES
from lockstep.node.fingerprint.processes import PROCESSES
from lockstep.node.fingerprint.running import read_running
from lockstep.node.fingerprint.scheduler import SCHEDULER, read_running_slurmd
from lockstep.node.fingerprint.sysctl import SYSCTL
from lockstep.node.fingerprint.timers import TIMERS
from lockstep.node.fingerprint.traffic import TRAFFIC
from lockstep.node.fingerprint.units import UNITS
from lockstep.node.readers.commands import Commands
from lockstep.node.readers.reading import Request


def read_running_slurm(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield what ``slurm_running`` does; few nodes run slurmctld and need that module."""
    if any(daemon.unit == "slurmctld.service" for daemon in daemons_of(commands)):
        from lockstep.node.fingerprint import slurm_running

        yield from slurm_running.read_running_slurm(request, commands)


def read_all_running(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield what runs otherwise than it is configured: daemons, the kernel, mounts and Slurm."""
    for read in (
        read_running,
        read_running_kernel,
        read_running_mounts,
        read_running_slurm,
        read_running_slurmd,
    ):
        yield from read(request, commands)


DOMAINS: tuple[Domain, ...] = (
    *FILES, *PACKAGES, *ACCOUNTS, *UNITS, *PROCESSES, *LISTENERS, *TIMERS, *SCHEDULER, *ENGINES,
    *SYSCTL, *KERNEL, *MODULES, *NETWORK, *TRAFFIC, *FIREWALL, *MOUNTS, *HARDWARE,
    Domain("running", read_all_running),
)  # fmt: skip
