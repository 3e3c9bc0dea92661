"""Every node gives a record over ssh.

Why      A node that cannot be read cannot be repaired either, and its jobs are on their own.
Blind    A node that answers to ssh and to nothing else: the other rules see that.
"""

from lockstep.checks.rule import Rule

RULE = Rule(
    id="node.reachable",
    title="the node gives a record over ssh",
    reading="ssh",
    # Without the address: equal for all nodes, it is one repair of them all.
    repair="look at {node} itself (power, network, sshd, sudo); "
    "address: lockstep plan {inventory} NODE",
    source="every finding of a node rests on it",
)
