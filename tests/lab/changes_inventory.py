"""The lab's inventory with a history of its own, in the folder that CHANGES_RECORDS names."""

import os
import runpy

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan

_plans = runpy.run_path("inventories/lab.py").values()
_plan = next(one for one in _plans if isinstance(one, ClusterPlan))
_spec = _plan.spec.model_copy(update={"records_dir": os.environ["CHANGES_RECORDS"]})
_cluster = planned(_spec, "tests/lab/changes_inventory.py")

head = _cluster.group("head")
worker = _cluster.group("worker")
