"""The NVMe disks of a hardware class are of one make and firmware.

Why      A disk of another make, or old firmware, is slower where all nodes read their data at
         once.
Blind    Wear and temperature; which slot has which.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._rdma import counted
from lockstep.report import Severity

RULE = Rule(
    id="storage.nvme",
    title="NVMe disks are alike in a hardware class",
    reading="storage.nvme",
    kind=Kind.MULTISET,
    peers=Peers.CLASS,
    show=counted,
    severity=Severity.WARNING,
    repair="on {node}: nvme list; flash or replace the one that differs",
    explained_by=(Cause("platform.product"),),
    source="kernel documentation, ABI/testing/sysfs-nvme",
)
