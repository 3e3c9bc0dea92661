"""The lab's inventory with Kubernetes, and MIG devices on each GPU of the workers."""

import runpy

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan

_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
_worker = _described.hardware["worker"]
assert _worker.gpu is not None
_gpu = _worker.gpu.model_copy(update={"mig": ("3g.71gb", "1g.18gb")})
_hardware = {**_described.hardware, "worker": _worker.model_copy(update={"gpu": _gpu})}
_spec = _described.model_copy(update={"hardware": _hardware})
_cluster = planned(_spec, "tests/lab/kubernetes_mig_inventory.py")

head = _cluster.group("head")
worker = _cluster.group("worker")
