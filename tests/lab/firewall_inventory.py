"""The lab's inventory with a packet filter; the variable FIREWALL names its kind."""

import os
import runpy

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan
from lockstep.spec.firewall import Firewall

_values = runpy.run_path("inventories/lab.py").values()
# The inventory's plan is the only one among its values: a second one would be used in its place.
_described = next(one.spec for one in _values if isinstance(one, ClusterPlan))
_firewall = Firewall.model_validate({"kind": os.environ["FIREWALL"]})
_os = _described.os.model_copy(update={"firewall": _firewall})
_spec = _described.model_copy(update={"os": _os})
_cluster = planned(_spec, "tests/lab/firewall_inventory.py")

head = _cluster.group("head")
worker = _cluster.group("worker")
