"""CUDA: its packages, and the path of its programs."""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.plan.declaration import Declaration, File
from lockstep.plan.validation import SHELL


def _has_cuda(plan: NodePlan) -> bool:
    stack = plan.nvidia
    return stack is not None and (stack.has("cuda_runtime") or stack.has("cuda_toolkit"))


ROLE = Declaration(
    name="cuda",
    title="CUDA",
    jobs_use=True,
    when=_has_cuda,
    after=("nvidia_driver",),
    more_packages=lambda plan: plan.stack_packages("cuda_runtime", "cuda_toolkit"),
    files=(
        File(
            path="/etc/profile.d/50-lockstep-cuda.sh",
            template="cuda/profile.sh.j2",
            validate=SHELL,
            # Debian's packages put their programs into /usr/bin.
            wanted=lambda plan: plan.nvidia is not None and plan.nvidia.spec.packaging == "nvidia",
        ),
    ),
)
