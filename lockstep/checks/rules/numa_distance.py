"""The distances between NUMA nodes are alike.

Why      Programs place memory by them; other distances are another setting of the firmware.
Blind    Distances that the firmware makes up.
"""

from lockstep.checks.rule import Cause, Kind, Peers, Rule
from lockstep.checks.rules._peers import OTHER_MACHINE

RULE = Rule(
    id="numa.distance",
    title="NUMA distances are alike in a hardware class",
    reading="numa.distance",
    kind=Kind.SLOTS,
    peers=Peers.CLASS,
    repair="compare the firmware settings of {node} (nodes per socket, sub-NUMA clusters)",
    explained_by=(Cause("cpu.numa"), *OTHER_MACHINE),
    source="kernel documentation, ABI/stable/sysfs-devices-node",
)
