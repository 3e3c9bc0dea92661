"""NVIDIA's fabric manager, for nodes with NVSwitches; without it, CUDA fails with error 802."""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, Unit
from lockstep.plan.nvidia import FABRIC_MANAGER, stack_packages

ROLE = Declaration(
    name="nvidia_fabric_manager",
    title="Fabric manager",
    jobs_use=True,
    when=lambda plan: plan.nvidia is not None and plan.nvidia.has("fabric_manager"),
    after=("nvidia_driver", "cuda"),
    more_packages=lambda plan: stack_packages(plan, "fabric_manager", "nscq"),
    units=(Unit(name=FABRIC_MANAGER, program="/usr/bin/nv-fabricmanager", restart="never"),),
)
