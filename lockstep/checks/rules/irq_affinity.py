"""An interrupt may run on the same CPUs on every node of a hardware class.

Why      A network queue whose interrupts moved onto a job's CPU, or to the far socket, slows the
         node under load only.
Blind    What is equal on all nodes and wrong; interrupts that only one node has; where the
         kernel lets one run inside its set.
"""

from lockstep.checks.context import Items, View
from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._boot import STARTED_SO, own_kernel, started_otherwise
from lockstep.plan.running import NEW_INTERRUPTS
from lockstep.report import Severity

READING = "irq.affinity"
OF_THE_BOARD = ("timer", "rtc", "hpet", "acpi", "cascade", "i8042", "dmar", "amd-vi", "pmi")
"""How names of interrupts begin that no job depends on; the kernel puts them where it likes."""


def _look(view: View) -> Items:
    return {
        name: value
        for name, value in view.items(READING).items()
        if not name.lower().startswith(OF_THE_BOARD)
    }


RULE = Rule(
    id="irq.affinity",
    title="interrupts may run on the same CPUs in a hardware class",
    reading=READING,
    kind=Kind.SLOTS,
    look=_look,
    peers=Peers.CLASS,
    show=lambda value: f"CPUs {value}",
    grounds=lambda view, device: started_otherwise(view, "irqaffinity", "isolcpus"),
    severity=Severity.WARNING,
    # Elsewhere nobody owns them: irqbalance moves them, on each node in its own way.
    applies=lambda view: own_kernel(view) and bool(view.plan.hardware.cpu.housekeeping),
    repair_peers="on {node}: find what moved it (irqbalance, a script of the driver), then write "
    "the list of the peers to smp_affinity_list of the interrupt {device} in /proc/irq",
    explained_by=(
        Cause("unit.masked", device="irqbalance.service"),
        Cause("kernel.setting", device=NEW_INTERRUPTS),
        Cause("file.content", device="/etc/tmpfiles.d/50-lockstep-cpus.conf"),
        *STARTED_SO,
    ),
    source="kernel documentation, core-api/irq/irq-affinity",
)
