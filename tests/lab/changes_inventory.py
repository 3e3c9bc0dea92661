"""The lab's inventory with a history and accepted differences of its own.

Both lie in the folder that CHANGES_RECORDS names.
"""

import os
import runpy
from pathlib import Path

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan

_plans = runpy.run_path("inventories/lab.py").values()
_plan = next(one for one in _plans if isinstance(one, ClusterPlan))
_folder = os.environ["CHANGES_RECORDS"]
_checks = _plan.spec.checks.model_copy(
    update={"accepted": str(Path(_folder).with_suffix(".accepted.toml"))}
)
_spec = _plan.spec.model_copy(update={"records_dir": _folder, "checks": _checks})
_cluster = planned(_spec, "tests/lab/changes_inventory.py")

head = _cluster.group("head")
worker = _cluster.group("worker")
