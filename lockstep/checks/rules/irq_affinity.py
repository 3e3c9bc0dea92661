"""An interrupt may run on the same CPUs on every node of a hardware class.

Why      A network queue whose interrupts moved onto a job's CPU, or to the far socket, slows the
         node under load only.
Blind    What is equal on all nodes and wrong; interrupts that only one node has, and those of NVMe
         disks, which the kernel manages; where inside the housekeeping CPUs one runs. A node that
         waits for a reboot is not compared: another command line spread its interrupts.
"""

from lockstep.checks.context import Items, View, shared
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._boot import own_kernel, started_otherwise
from lockstep.plan.running import NEW_INTERRUPTS
from lockstep.report import Severity
from lockstep.spec.names import cpus

READING = "irq.affinity"
NOT_JUDGED = (
    *("timer", "rtc", "hpet", "acpi", "cascade", "i8042", "dmar", "amd-vi", "pmi"),
    *("nvme", "virtio"),
)
"""How names of interrupts begin that no job depends on, or that the kernel itself spreads over all
CPUs (managed interrupts: nobody can move them, and disks have another number at each boot)."""


HOUSEKEEPING = "housekeeping"


@shared(READING)
def _look(view: View) -> Items:
    allowed = cpus(view.plan.hardware.cpu.housekeeping)
    return {
        name: HOUSEKEEPING if isinstance(value, str) and cpus(value) <= allowed else value
        for name, value in view.items(READING).items()
        if not name.lower().startswith(NOT_JUDGED)
    }


def _booted_as_planned(view: View) -> bool:
    # Where there are no housekeeping CPUs irqbalance moves them, on each node in its own way.
    return (
        own_kernel(view)
        and bool(view.plan.hardware.cpu.housekeeping)
        and not started_otherwise(view, "irqaffinity", "isolcpus")
    )


RULE = Rule(
    id="irq.affinity",
    title="interrupts may run on the same CPUs in a hardware class",
    reading=READING,
    kind=Kind.SLOTS,
    look=_look,
    peers=Peers.CLASS,
    show=lambda value: f"CPUs {value}",
    severity=Severity.WARNING,
    applies=_booted_as_planned,
    repair_peers="on {node}: find what moved it (irqbalance, a script of the driver), then write "
    "the list of the peers to smp_affinity_list of the interrupt {device} in /proc/irq",
    explained_by=(
        Cause("unit.masked", device="irqbalance.service"),
        Cause("kernel.setting", device=NEW_INTERRUPTS),
        Cause("file.content", device="/etc/tmpfiles.d/50-lockstep-cpus.conf"),
    ),
    source="kernel documentation, core-api/irq/irq-affinity",
)
