"""NVIDIA's IMEX daemon, which shares GPU memory between nodes connected by NVLink.

Owns     the list of the nodes of the NVLink domain, and nvidia-imex.service. If Kubernetes'
         ComputeDomains start IMEX (``gpu.imex``), no node has the role, and the service stays off.
Restart  never: it would end the jobs that share memory.
"""

from __future__ import annotations

from lockstep.plan.declaration import Declaration, File, Unit
from lockstep.plan.nvidia import IMEX, has_imex_service, stack_packages

ROLE = Declaration(
    name="nvidia_imex",
    title="IMEX",
    jobs_use=True,
    when=lambda plan: (
        plan.nvidia is not None
        and plan.nvidia.has("imex")
        and plan.gpu is not None
        and has_imex_service(plan.gpu)
    ),
    after=("nvidia_driver", "nvidia_fabric_manager"),
    more_packages=lambda plan: stack_packages(plan, "imex"),
    files=(
        File(
            path="/etc/nvidia-imex/nodes_config.cfg",
            template="nvidia_imex/nodes_config.cfg.j2",
            own=True,
        ),
    ),
    units=(Unit(name=IMEX, program="/usr/bin/nvidia-imex", restart="never"),),
)
