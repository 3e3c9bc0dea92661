"""Every node has a machine id of its own.

Why      Nodes that were copied share addresses of DHCP, names in the journal, and more that is
         drawn from it.
Blind    Nodes outside of this cluster.
"""

from lockstep.checks.rule import Kind, Rule

RULE = Rule(
    id="os.machine_id",
    title="every node has its own machine id",
    reading="os.machine_id",
    kind=Kind.UNIQUE,
    repair="on all of {node} but one: rm /etc/machine-id, systemd-machine-id-setup, reboot",
    source="machine-id(5)",
)
