"""Every node gives a record over ssh.

Why      A node that cannot be read cannot be repaired either, and its jobs are on their own.
Blind    A node that answers to ssh and to nothing else: the other rules see that.
"""

from lockstep.checks.rule import Rule

RULE = Rule(
    id="node.reachable",
    title="the node gives a record over ssh",
    reading="ssh",
    repair="look at {node} itself (power, network, sshd, sudo): ssh {address}",
    source="every finding of a node rests on it",
)
