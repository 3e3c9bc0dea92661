"""CUDA: the path of its programs; the packages are there already.

Owns     a file of /etc/profile.d.
"""

from __future__ import annotations

from lockstep.files import managed
from lockstep.plan import NodePlan
from lockstep.roles._role import role
from lockstep.roles.operations.files import managed_files


@role("CUDA")
def apply(plan: NodePlan) -> None:
    """Let shells find the compiler."""
    if "cuda" not in plan.capabilities:
        return
    managed_files(name="Files", files=managed(plan, None, "cuda"))
