"""The same kernel modules are loaded, in the same version.

Why      A node without the driver of its memory controllers reports no errors; one with a driver
         of its own making behaves in its own way.
Blind    Modules that are not on the list; those of RDMA and of the GPUs have rules of their own.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE, part
from lockstep.report import Severity

READING = "kernel.modules"
NAMES = (
    *("bnxt_en", "ice", "ena", "knem", "xpmem", "lustre", "nvme", "ipmi_si"),
    *("edac_core", "skx_edac", "i10nm_edac", "amd64_edac"),
)


RULE = Rule(
    id="kernel.modules",
    title="the kernel's drivers are alike in a hardware class",
    reading=READING,
    look=part(READING, *NAMES),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: modprobe {device} or find what loaded it (/etc/modules-load.d)",
    explained_by=(*OTHER_KERNEL, *OTHER_MACHINE),
    source="kernel documentation, ABI/testing/sysfs-module",
)
