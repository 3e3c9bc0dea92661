"""DCGM's host engine: the only process on a node that queries the GPUs for metrics."""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, Unit
from lockstep.plan.nvidia import DCGM, stack_packages

ROLE = Declaration(
    name="dcgm",
    title="DCGM",
    when=lambda plan: plan.nvidia is not None and plan.nvidia.has("dcgm"),
    after=("nvidia_driver", "nvidia_imex"),
    more_packages=lambda plan: stack_packages(plan, "dcgm"),
    units=(Unit(name=DCGM, program="/usr/bin/nv-hostengine"),),
)
