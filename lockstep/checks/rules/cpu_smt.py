"""Threads of the CPU cores are on or off alike.

Why      With the sibling threads off, or used by others, a node computes at another speed.
Blind    Which threads a job gets.
"""

from lockstep.checks.rule import Cause, Peers, Rule
from lockstep.checks.rules._peers import OTHER_KERNEL, OTHER_MACHINE

RULE = Rule(
    id="cpu.smt",
    title="threads of the CPU cores are alike in a hardware class",
    reading="cpu.smt",
    peers=Peers.CLASS,
    repair="on {node}: compare nosmt on the kernel command line and the firmware's setting",
    explained_by=(Cause("cpu.count"), *OTHER_KERNEL, *OTHER_MACHINE),
    source="kernel documentation, ABI/testing/sysfs-devices-system-cpu (smt/control)",
)
