"""Operations of the role kernel."""

from __future__ import annotations

from lockstep.plan import NodePlan
from lockstep.roles.operations.declared import put_files
from lockstep.roles.operations.kernel_files import running_kernel_files


def apply(plan: NodePlan) -> None:
    """Write what each boot sets, then set it now."""
    put_files(plan, "kernel")
    running_kernel_files(name="Running kernel", files=plan.hardware.kernel_files)
