"""The lab's inventory with Kubernetes, and a pod network that the site installs itself."""

import runpy
from typing import Any

from lockstep.inventory import plan_or_exit
from lockstep.plan import ClusterPlan

_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
_wanted: dict[str, Any] = _described.model_dump(mode="json", exclude_none=True)
for _one in _wanted["nodes"]:
    del _one["pods"]
_wanted["scheduler"] |= {
    "network": "site",
    # kube-controller-manager gives each node a /64 of it.
    "pod_prefix": _wanted["scheduler"]["pod_prefix"].replace(":ffff::/64", ":fe00::/56"),
    # GPUs need pods, and so the network.
    "gpus": {"deploy": "none"},
}
_cluster = plan_or_exit(_wanted, __file__)

head = _cluster.group("head")
worker = _cluster.group("worker")
