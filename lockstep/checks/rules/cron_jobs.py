"""Cron has the same jobs on all workers of a hardware class.

Why      A job of cron on one node wakes up in the middle of a step that all nodes take together.
Blind    The minute and hour of a job, which packages draw by lot.
"""

from lockstep.checks.rule import Peers, Rule
from lockstep.checks.rules._peers import only_difference, size, whole, worker
from lockstep.report import Severity

RULE = Rule(
    id="cron.jobs",
    title="workers have the same jobs of cron",
    reading="cron.jobs",
    look=whole("cron.jobs"),
    peers=Peers.CLASS,
    show=size,
    words=only_difference,
    severity=Severity.WARNING,
    applies=worker,
    repair="on {node}: compare these files with those of a peer",
    source="cron(8), crontab(5)",
)
