"""Each package of CPUs may draw the same power.

Why      A lower limit, set by the BMC or by a tool, makes one node slow under load only.
Blind    A limit of the whole machine that the BMC keeps to itself; kernels without the powercap
         driver.
"""

from lockstep.checks.rule import Kind, Peers, Rule, anything
from lockstep.checks.rules._peers import OTHER_MACHINE

RULE = Rule(
    id="cpu.power_limit",
    title="power limits of the CPUs are alike in a hardware class",
    reading="cpu.power_limits",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    show=lambda value: f"{value:g} W" if isinstance(value, int | float) else anything(value),
    repair="on {node}: find what lowered it (power policy of the BMC, powercap-set, the BIOS)",
    explained_by=OTHER_MACHINE,
    source="kernel documentation, power/powercap/powercap",
)
