"""Computes every node's exact settings from the spec, without contacting a node.

``plan()`` returns a ``ClusterPlan``, which has a ``NodePlan`` for each node. pyinfra gets the
``NodePlan`` in the data of the node's host. Values that all nodes of a hardware class share are
computed once per class; values that depend on a node's roles are computed once per kind of node
(``NodePlan.kind``).
"""

from lockstep.plan.cluster import ClusterPlan, plan
from lockstep.plan.node import NodePlan

__all__ = ["ClusterPlan", "NodePlan", "plan"]
