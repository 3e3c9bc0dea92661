"""Transparent huge pages are used alike, declared or not.

Why      Without them, or with the kernel merging pages meanwhile, memory is slower on one node.
Blind    What programs ask for themselves (madvise).
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, part
from lockstep.plan.running import THP
from lockstep.report import Severity

RULE = Rule(
    id="kernel.thp",
    title="transparent huge pages are alike in a hardware class",
    reading="kernel.state",
    look=part("kernel.state", f"{THP}/enabled", f"{THP}/defrag", f"{THP}/shmem_enabled"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="declare kernel.transparent_hugepages of the hardware class; on {node}: find what set "
    "{device} (tuned, a script)",
    explained_by=(Cause("kernel.setting", same_device=True), *OTHER_KERNEL),
    source="kernel documentation, admin-guide/mm/transhuge",
)
