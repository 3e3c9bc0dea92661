"""The CUDA packages, and PATH entries for their programs."""

from __future__ import annotations

from lockstep.plan.declaration import SHELL, Declaration, File
from lockstep.plan.nvidia import stack_packages

ROLE = Declaration(
    name="cuda",
    title="CUDA",
    jobs_use=True,
    when=lambda plan: (
        plan.nvidia is not None
        and (plan.nvidia.has("cuda_runtime") or plan.nvidia.has("cuda_toolkit"))
    ),
    after=("nvidia_driver",),
    more_packages=lambda plan: stack_packages(plan, "cuda_runtime", "cuda_toolkit"),
    files=(
        File(
            path="/etc/profile.d/50-lockstep-cuda.sh",
            template="cuda/profile.sh.j2",
            validate=SHELL,
            # Debian's packages install their programs in /usr/bin.
            wanted=lambda plan: plan.nvidia is not None and plan.nvidia.spec.packaging == "nvidia",
        ),
    ),
)
