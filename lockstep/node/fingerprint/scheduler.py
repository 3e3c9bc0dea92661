"""slurmd as it says itself, without a question to slurmctld."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from lockstep.node.fingerprint.daemons import daemons_of, group_root
from lockstep.node.fingerprint.entry import REPAIR, Domain, Entry
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.fingerprint.slurm_conf import read_slurm_conf
from lockstep.node.fingerprint.slurm_settings import level, started_with
from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.reading import Request, Unread
from lockstep.node.readers.slurm import SLURM_CONF
from lockstep.node.readers.tree import found_by

DEBUG = "Slurmd Debug"
SHOWN = (
    *("Actual CPUs", "Actual Boards", "Actual sockets", "Actual cores"),
    *("Actual threads per core", "Hostname", DEBUG, "Slurmd Logfile", "Version"),
)
"""Lines of ``scontrol show slurmd`` that are configuration. Sizes of memory and of /tmp differ by
some megabytes between equal nodes, and other domains compare them."""
CONFIGURATIONS = (
    *("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf"),
    "/usr/local/etc/slurm.conf",
)
EXCEPTIONS_OF_SCHEDULER: tuple[Exempt, ...] = ()


def read_slurmd(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield slurmd, if it runs here.

    scontrol(1) asks slurmd itself. Without a local slurm.conf it would ask slurmctld for one.
    """
    if _is_here():
        yield Entry("slurmd", {k: v for k, v in _said(commands).items() if k in SHOWN})


def read_running_slurmd(request: Request, commands: Commands) -> Iterator[Entry]:
    """Yield slurmd's log level if it is not the one of its slurm.conf (scontrol(1), setdebug)."""
    path = next((path for path in SLURM_CONF if found_by(path)), "")
    if not path or not _is_here():
        return
    try:
        running = level(_said(commands).get(DEBUG, ""))
    except Unread:
        return  # the domain ``slurmd`` reports it
    daemon = next((one for one in daemons_of(commands) if one.unit == "slurmd.service"), None)
    configured = read_slurm_conf(path).settings.get("slurmddebug", "info")
    configured = started_with(daemon, level(configured))
    if running and running != configured:
        fields = {"running": running, "configured": configured, REPAIR: "scontrol reconfigure"}
        yield Entry("slurmd.service: SlurmdDebug", fields)


def _is_here() -> bool:
    local = any(found_by(path) for path in CONFIGURATIONS)
    return bool(local and found_by(f"{group_root()}/*/slurmd.service") and installed("scontrol"))


@lru_cache(maxsize=1)
def _said(commands: Commands) -> dict[str, str]:
    """Return what slurmd says."""
    lines = commands.run("scontrol", "show", "slurmd").splitlines()
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


SCHEDULER = (Domain("slurmd", read_slurmd),)
