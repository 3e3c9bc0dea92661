"""slurmd as it says itself, without a question to slurmctld."""

from __future__ import annotations

from collections.abc import Iterator

from lockstep.node.fingerprint.daemons import group_root
from lockstep.node.fingerprint.entry import Domain, Entry
from lockstep.node.fingerprint.exempt import Exempt
from lockstep.node.readers.commands import Commands, installed
from lockstep.node.readers.reading import Request
from lockstep.node.readers.tree import found_by

SHOWN = (
    *("Actual CPUs", "Actual Boards", "Actual sockets", "Actual cores"),
    *("Actual threads per core", "Hostname", "Slurmd Debug", "Slurmd Logfile", "Version"),
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
    local = any(found_by(path) for path in CONFIGURATIONS)
    if not local or not found_by(f"{group_root()}/*/slurmd.service") or not installed("scontrol"):
        return
    fields = {}
    for line in commands.run("scontrol", "show", "slurmd").splitlines():
        name, sign, value = line.partition("=")
        if sign and name.strip() in SHOWN:
            fields[name.strip()] = value.strip()
    yield Entry("slurmd", fields)


SCHEDULER = (Domain("slurmd", read_slurmd),)
