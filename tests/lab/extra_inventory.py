"""The lab's inventory with an additional role on its workers: files, a package's file, a unit."""

import runpy

from lockstep.inventory import planned
from lockstep.plan import ClusterPlan
from lockstep.plan.declaration import Declaration, File, Unit

SERVICE = """\
[Service]
ExecStart=/bin/sleep infinity

[Install]
WantedBy=multi-user.target
"""

EXTRA = Declaration(
    name="extra",
    title="Extra",
    when=lambda plan: plan.is_worker,
    files=(
        File(path="/etc/lockstep-extra.conf", text=lambda plan: "colour = red\n"),
        File(path="/etc/lockstep-changed.conf", text=lambda plan: "colour = red\n"),
        File(path="/etc/deluser.conf", text=lambda plan: "REMOVE_HOME = 1\n"),
        File(path="/etc/systemd/system/lockstep-extra.service", text=lambda plan: SERVICE),
    ),
    units=(Unit(name="lockstep-extra.service"),),
)

_plans = runpy.run_path("inventories/lab.py").values()
_plan = next(one for one in _plans if isinstance(one, ClusterPlan))
_cluster = planned(_plan.spec, "tests/lab/extra_inventory.py", roles=(EXTRA,))

head = _cluster.group("head")
worker = _cluster.group("worker")
