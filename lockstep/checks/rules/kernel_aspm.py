"""PCIe links save power alike.

Why      A link that sleeps takes microseconds to wake up: each small transfer pays them.
Blind    What the firmware set on single links.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE, part
from lockstep.report import Severity

RULE = Rule(
    id="kernel.aspm",
    title="power saving of PCIe links is alike in a hardware class",
    reading="kernel.state",
    look=part("kernel.state", "/sys/module/pcie_aspm/parameters/policy"),
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: compare pcie_aspm= on the kernel command line and what wrote {device}",
    explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    source="kernel documentation, admin-guide/kernel-parameters (pcie_aspm)",
)
