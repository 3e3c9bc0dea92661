"""The clock follows its servers.

Why      munge credentials live 300 s: a node whose clock runs away falls out of Slurm.
Blind    Servers that are wrong together. Servers that were lost in the last two hours (or ten
         update intervals); after that a clock counts as not synchronised, whatever chronyd says.
         The cluster's own reference (the first head, when the spec names no servers) follows
         nobody and is not judged: it is right by definition.
"""

from lockstep.checks.context import View
from lockstep.checks.rule import Cause, Rule


def follows(view: View) -> bool:
    """Apply to all nodes but the cluster's own reference."""
    return not view.plan.time.reference


RULE = Rule(
    id="time.synchronised",
    title="the clock follows its servers",
    reading="time.synchronised",
    expected=lambda view: True,
    show=lambda value: "synchronised" if value else "not synchronised",
    applies=follows,
    owner="time_sync",
    explained_by=(
        Cause("unit.active", device="chrony.service"),
        Cause("file.content", device="/etc/chrony/chrony.conf"),
    ),
    source="chronyc(1), tracking: leap status, reference time, update interval",
)
