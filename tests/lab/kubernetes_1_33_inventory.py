"""The lab's inventory with Kubernetes 1.33, the older of two releases that the lab has."""

import runpy
from pathlib import Path

from lab.state import load_or_exit
from lockstep.inventory import planned
from lockstep.plan import ClusterPlan
from lockstep.spec.kubernetes import Kubernetes

_of_lab = load_or_exit().kubernetes
assert _of_lab is not None
_older = next(one for one in _of_lab.releases if one.series == "1.33")
_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
assert isinstance(_described.scheduler, Kubernetes)
_served = {"uri": _older.packages.uri, "key": Path(_older.packages.key).read_text("ascii")}
_software = _described.software.model_copy(
    update={
        "repositories": tuple(
            one.model_copy(update=_served) if one.name == "kubernetes" else one
            for one in _described.software.repositories
        )
    }
)
_scheduler = _described.scheduler.model_copy(update={"version": _older.version})
_spec = _described.model_copy(update={"scheduler": _scheduler, "software": _software})
_cluster = planned(_spec, "tests/lab/kubernetes_1_33_inventory.py")

head = _cluster.group("head")
worker = _cluster.group("worker")
