"""The lab's inventory with Kubernetes 1.35, which no description may have yet."""

import runpy

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan
from lockstep.spec.kubernetes import Kubernetes

_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
assert isinstance(_described.scheduler, Kubernetes)
_scheduler = _described.scheduler.model_copy(update={"version": "1.35.0"})
_cluster = planned(
    _described.model_copy(update={"scheduler": _scheduler}),
    "tests/lab/kubernetes_skipped_inventory.py",
)

head = _cluster.group("head")
worker = _cluster.group("worker")
