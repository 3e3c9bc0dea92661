"""The same units are enabled on all workers of a hardware class.

Why      A timer or daemon that somebody enabled on one node takes its CPU time from the jobs
         there.
Blind    Units that the system brings enabled by itself; what starts without systemd. Planned units
         are unit.enabled's.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import only_difference, size, worker
from lockstep.checks.rules._units import not_planned
from lockstep.report import Severity

RULE = Rule(
    id="unit.peers",
    title="workers have the same units enabled",
    reading="units.enabled",
    look=lambda view: not_planned(view, "units.enabled"),
    peers=Peers.CLASS,
    show=size,
    words=only_difference,
    severity=Severity.WARNING,
    applies=worker,
    repair="on {node}: systemctl disable --now what is more, enable what is missing",
    source="systemd.unit(5), [Install]",
)
