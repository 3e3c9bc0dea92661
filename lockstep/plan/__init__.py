"""Computes the exact values of every node from the spec, without contacting a node.

``plan(cluster)`` gives a ``ClusterPlan``. A node's part of it is a ``NodePlan``, which is also
the data of its pyinfra host. Values that all nodes of a hardware class share are computed once per
class; values that follow from a node's roles are computed once per kind of node
(``NodePlan.kind``).
"""

from lockstep.plan.cluster import ClusterPlan, plan
from lockstep.plan.node import NodePlan

__all__ = ["ClusterPlan", "NodePlan", "plan"]
