"""The CPUs of a hardware class have the same microcode.

Why      Microcode changes speed and closes holes: a node that was not rebooted has the old one.
Blind    A microcode that is old on all nodes.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import OTHER_MACHINE
from lockstep.report import Severity

RULE = Rule(
    id="cpu.microcode",
    title="one microcode per hardware class",
    reading="cpu.microcode",
    peers=Peers.CLASS,
    severity=Severity.WARNING,
    repair="on {node}: install the microcode package of its peers, then reboot it when it is idle",
    explained_by=OTHER_MACHINE,
    source="proc_cpuinfo(5); kernel documentation, arch/x86/microcode",
)
