"""The CUDA packages, PATH entries for their programs, and the settings of cuFile.

CUFILE_ENV_PATH_JSON: NVIDIA, GPUDirect Storage configuration guide, "GPUDirect Storage Parameters".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lockstep.plan import NodePlan
from lockstep.plan.declaration import SHELL, Declaration, File
from lockstep.plan.nvidia import stack_packages

CUFILE = "/etc/lockstep/cufile.json"
"""Not /etc/cufile.json, which NVIDIA's package owns. JSON has no comment that could say so."""


def _has_cufile(plan: NodePlan) -> bool:
    return plan.nvidia is not None and plan.nvidia.has("nvidia_fs") and bool(_settings(plan))


def _settings(plan: NodePlan) -> Mapping[str, object]:
    return plan.nvidia.spec.cufile if plan.nvidia is not None else {}


def _cufile(plan: NodePlan) -> str:
    """Return the settings as cuFile reads them: each part of a name is an object."""
    found: dict[str, Any] = {}
    for name, value in sorted(_settings(plan).items()):
        *outer, last = name.split(".")
        inner = found
        for one in outer:
            inner = inner.setdefault(one, {})
        inner[last] = value
    return json.dumps(found, indent=2) + "\n"


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
            path=CUFILE,
            text=_cufile,
            # gdscheck would need a GPU.
            validate="python3 -m json.tool {new} >/dev/null",
            wanted=_has_cufile,
        ),
        File(
            path="/etc/profile.d/50-lockstep-cufile.sh",
            template="cuda/cufile.sh.j2",
            values={"file": CUFILE},
            validate=SHELL,
            wanted=_has_cufile,
        ),
        File(
            path="/etc/profile.d/50-lockstep-cuda.sh",
            template="cuda/profile.sh.j2",
            validate=SHELL,
            # Debian's packages install their programs in /usr/bin.
            wanted=lambda plan: plan.nvidia is not None and plan.nvidia.spec.packaging == "nvidia",
        ),
    ),
)
