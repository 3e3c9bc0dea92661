"""No PCIe switch sends traffic between its boards and adapters up to the CPUs.

Why      With Access Control Services on, what a board sends to the adapter beside it takes the way
         through the root: half the bandwidth, or less.
Blind    Boards without a switch above them. A host of virtual machines, which needs it: switch the
         rule off there.
"""

from lockstep.checks.rule import Rule
from lockstep.checks.rules._gpu import UNREAD_WITH_PCI, on_bus
from lockstep.report import Severity

RULE = Rule(
    id="gpu.acs",
    title="PCIe switches do not redirect traffic of boards",
    reading="gpu.pci.redirects",
    expected=lambda view: False,
    words=lambda found, expected: ("ACS redirects", "no redirect"),
    severity=Severity.WARNING,
    applies=on_bus,
    repair="switch ACS off in the firmware of {node}, or at boot for the bridge {device} (setpci)",
    explained_by=UNREAD_WITH_PCI,
    source="NCCL user guide, troubleshooting, PCI Access Control Services",
)
