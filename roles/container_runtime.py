"""Container engines, and the GPUs in their containers by CDI.

Owns     one file of ours per engine, never another tool's; the CDI specification's freshness.
Restart  an engine for its own file or program; containers go on (live-restore, shims).
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import CDI_REFRESH
from lockstep.roles._role import role
from lockstep.roles.operations.container_runtime import cdi_specification, check_image, live_restore
from lockstep.roles.operations.files import managed_files
from lockstep.roles.operations.service import service

PROGRAMS = {"containerd.service": "/usr/bin/containerd", "docker.service": "/usr/sbin/dockerd"}
"""In the order of their start: Docker uses containerd."""


@role("Container runtime")
def apply(plan: NodePlan) -> None:
    """Configure and run each engine of the plan."""
    if "container_runtime" not in plan.capabilities:
        return
    files = managed(plan, None, "container_runtime")
    managed_files(name="Files", files=files)
    engines = plan.spec.software.containers.engines
    if "docker" in engines:
        live_restore(name="Docker keeps containers over a restart")
    for unit, program in PROGRAMS.items():
        if unit in plan.job_parents:
            kind = unit.partition(".")[0]
            paths = tuple(file.path for file in files if kind in file.path)
            service(name=f"Engine {kind}", unit=unit, files=(*paths, program))
    if plan.nvidia is not None and plan.nvidia.has("container_toolkit"):
        service(name="CDI refresh", unit=f"{CDI_REFRESH}.path", files=())
        cdi_specification(name="CDI specification", boards=plan.gpu.count if plan.gpu else 0)
    for engine in plan.check_engines:
        check_image(name=f"Image of the check ({engine})", engine=engine)
