"""The kernel's security modules are the same.

Why      What one node forbids (AppArmor, lockdown), a job meets on this node only.
Blind    Profiles and policies of the modules.
"""

from lockstep.checks.rule import Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, part
from lockstep.report import Severity

RULE = Rule(
    id="kernel.security",
    title="security modules are alike in a hardware class",
    reading="kernel.state",
    look=part("kernel.state", "/sys/kernel/security/lsm", "/sys/kernel/security/lockdown"),
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: compare security=, lsm= and lockdown= on the kernel command line, and "
    "Secure Boot",
    explained_by=OTHER_KERNEL,
    source="kernel documentation, admin-guide/LSM",
)
