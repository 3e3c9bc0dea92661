"""The running host name is the node's name.

Why      Slurm finds its own line of slurm.conf by it; a wrong name stops slurmd.
Blind    What /etc/hostname holds for the next boot: file.content sees that.
"""

from lockstep.checks.rule import Cause, Rule

RULE = Rule(
    id="os.hostname",
    title="the host name is the node's name",
    reading="os.hostname",
    expected=lambda view: view.plan.name,
    owner="os_settings",
    explained_by=(Cause("file.content", device="/etc/hostname"),),
    source="hostname(7), slurmd(8)",
)
