"""The lab's inventory with a history of its own, in the folder that CHANGES_RECORDS names.

If there is a file of this name with .accepted.toml behind it, it has the accepted differences.
"""

import os
import runpy
from pathlib import Path

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan

_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
_folder = os.environ["CHANGES_RECORDS"]
_file = Path(_folder).with_suffix(".accepted.toml")
_checks = _described.checks.model_copy(update={"accepted": str(_file)} if _file.exists() else {})
_spec = _described.model_copy(update={"records_dir": _folder, "checks": _checks})
_cluster = planned(_spec, "tests/lab/changes_inventory.py")

head = _cluster.group("head")
worker = _cluster.group("worker")
