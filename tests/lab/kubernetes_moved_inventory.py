"""The inventory with both schedulers after worker3 has moved from Kubernetes to Slurm."""

import runpy
from typing import Any

from lockstep.inventory import plan_or_exit
from lockstep.plan import ClusterPlan

_values = runpy.run_path("tests/lab/kubernetes_beside_slurm_inventory.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
_wanted: dict[str, Any] = _described.model_dump(mode="json", exclude_none=True)
_moved = _wanted["nodes"][-1]
_moved["scheduler"] = "slurm"
del _moved["pods"]
_cluster = plan_or_exit(_wanted, __file__)

head = _cluster.group("head")
worker = _cluster.group("worker")
