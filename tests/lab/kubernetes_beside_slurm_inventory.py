"""The lab's inventory with both schedulers: worker1 is Slurm's, the others are Kubernetes'."""

import runpy
from typing import Any

from lockstep.inventory import plan_or_exit
from lockstep.plan import ClusterPlan

_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
_wanted: dict[str, Any] = _described.model_dump(mode="json", exclude_none=True)
_wanted["scheduler"] = [{"kind": "slurm"}, _wanted["scheduler"]]
# Settings that differ from the GPUs' own defaults, so that both workers have something to agree on.
_wanted["hardware"]["worker"]["gpu"] |= {
    "power_limit_w": 600,
    "clocks_mhz": [1200, 1755],
    "compute_mode": "exclusive_process",
}
_head, _slurm, *_pods = _wanted["nodes"]
_head["runs"] = ["slurm_controller", "slurm_accounting", *_head["runs"]]
_slurm["scheduler"] = "slurm"
del _slurm["pods"]
for _one in _pods:
    _one["scheduler"] = "kubernetes"
_cluster = plan_or_exit(_wanted, __file__)

head = _cluster.group("head")
worker = _cluster.group("worker")
