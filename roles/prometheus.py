"""Prometheus on a head: scrapes every node of the plan, rules judged by promtool.

Owns     prometheus.yml, our rule file, its arguments and unit.
Restart  only for new arguments or a new program; targets and rules are reloaded.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.service import service
from lockstep.spec import Service


@role("Prometheus")
def apply(plan: NodePlan) -> None:
    """Configure and run it, on the node that the plan names."""
    if not plan.runs(Service.PROMETHEUS):
        return
    files = managed(plan, None, "prometheus")
    managed_files(name="Files", files=files)
    service(
        name="Server",
        unit="prometheus.service",
        files=(
            *(f.path for f in files if not f.path.endswith(".yml")),
            "/usr/bin/prometheus",
        ),
        reload_files=tuple(f.path for f in files if f.path.endswith(".yml")),
    )
