"""All nodes of a hardware class run the same kernel.

Why      Drivers are built for one kernel, and two kernels schedule one job differently.
Blind    A new kernel that is installed everywhere and runs nowhere: peers agree.
"""

from lockstep.checks.rule import Peers, Rule

RULE = Rule(
    id="kernel.release",
    title="one running kernel per hardware class",
    reading="kernel.release",
    peers=Peers.CLASS,
    repair="reboot {node} into {expected} when it is idle (install that kernel if it is missing)",
    repair_peers="reboot {node} into {expected} when it is idle (install it if it is missing)",
    source="uname(2)",
)
